#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "exec/tokenizer/byte_trie.hpp"
#include "exec/tokenizer/model.hpp"
#include "exec/tokenizer/unicode/utf8.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr double kUnknownPenalty = 10;

struct Table {
  Vocabulary vocabulary;
  ByteTrie trie;
  std::vector<double> scores;
  std::optional<std::int32_t> unknown;
  bool bytes = false;
  std::string file;
};

/// The best segmentation up to a place of the piece: by the token that begins at `begin`.
struct BestPath {
  std::int32_t token = 0;
  double score = 0;
  std::ptrdiff_t begin = -1;
};

/// Takes the tokens with the largest sum of scores; among equal ones, those found first from the left.
class Unigram final : public TokenModel {
 public:
  explicit Unigram(Table table) : table_(std::move(table)) {
    least_ = *std::min_element(table_.scores.begin(), table_.scores.end());
  }

  void tokenize(std::string_view piece, std::vector<std::int32_t>& ids) override {
    find_best(piece);
    parts_.clear();
    for (std::size_t end = piece.size(); end > 0;) {
      const BestPath& path = best_[end];
      const auto begin = static_cast<std::size_t>(path.begin);
      const bool unknown = path.token == table_.unknown;
      if (unknown && !parts_.empty() && parts_.back().unknown) parts_.back().begin = begin;
      else parts_.push_back({begin, end, unknown});
      end = begin;
    }
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) add(piece.substr(part->begin, part->end - part->begin), ids);
  }
  const Vocabulary& vocabulary() const override { return table_.vocabulary; }

 private:
  struct Part {
    std::size_t begin, end;
    bool unknown;
  };

  void find_best(std::string_view piece) {
    best_.assign(piece.size() + 1, {});
    for (std::size_t begin = 0; begin < piece.size();) {
      std::size_t next = begin;
      next_character(piece, next);
      const std::size_t character = next - begin;
      const double before = best_[begin].score;
      bool single = false;
      const auto take = [&](std::size_t length, std::int32_t token, double score) {
        BestPath& path = best_[begin + length];
        if (path.begin < 0 || score + before > path.score) path = {token, score + before, static_cast<std::ptrdiff_t>(begin)};
      };
      table_.trie.prefixes(piece.substr(begin), [&](std::size_t length, std::int32_t token) {
        take(length, token, table_.scores[static_cast<std::size_t>(token)]);
        single = single || length == character;
      });
      if (!single) take(character, require_unknown(piece.substr(begin, character)), least_ - kUnknownPenalty);
      begin = next;
    }
  }

  std::int32_t require_unknown(std::string_view text) const {
    if (table_.unknown) return *table_.unknown;
    throw ConfigError(Problem{table_.file, "model.unk_id", "", "is missing, and the text has \"" + std::string(text) + "\", which is in no token", "set it to the id of the token for unknown text"});
  }

  void add(std::string_view part, std::vector<std::int32_t>& ids) const {
    if (const auto known = table_.vocabulary.find(part)) return ids.push_back(*known);
    if (table_.bytes)
      if (const auto bytes = table_.vocabulary.bytes(part)) return ids.insert(ids.end(), bytes->begin(), bytes->end()), void();
    ids.push_back(require_unknown(part));
  }

  Table table_;
  double least_;
  std::vector<BestPath> best_;
  std::vector<Part> parts_;
};

/// The number that serde_json reads from the shortest text of `value`: digits as a whole number, then one product or quotient, not
/// always the nearest double. The library has these scores, and where ways have equal sums their last bits decide.
double as_library_reads(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), std::abs(value), std::chars_format::scientific).ptr;
  std::uint64_t digits = 0;
  int exponent = 0;
  const char* at = text.data();
  for (bool fraction = false; at != end && *at != 'e'; ++at) {
    if (*at == '.') fraction = true;
    else digits = digits * 10 + static_cast<std::uint64_t>(*at - '0'), exponent -= fraction ? 1 : 0;
  }
  int power = 0;
  if (at != end) std::from_chars(at[1] == '+' ? at + 2 : at + 1, end, power);
  exponent += power;
  constexpr int kExact = 300;
  if (std::abs(exponent) > kExact) return value;
  while (exponent > 0 && digits < (std::uint64_t{1} << 53) / 10) digits *= 10, --exponent;
  const auto whole = static_cast<double>(digits), scale = std::pow(10.0, std::abs(exponent));
  return std::copysign(exponent >= 0 ? whole * scale : whole / scale, value);
}

Table read_table(const Place& place) {
  const auto all = place.at("vocab").list();
  std::size_t bytes = 0;
  for (const Place& one : all) {
    const auto pair = one.list();
    if (pair.size() != 2) one.refuse("is no pair of token and score");
    bytes += pair[0].text().size();
  }
  Table out{{}, ByteTrie(bytes), {}, {}, place.flag_or("byte_fallback", false), place.file()};
  for (const Place& one : all) {
    const auto pair = one.list();
    const std::string token = pair[0].text();
    const auto id = static_cast<std::int32_t>(out.scores.size());
    out.scores.push_back(as_library_reads(pair[1].number()));
    out.trie.add(token, id);
    out.vocabulary.add(token, id);
  }
  return out;
}

}  // namespace

std::unique_ptr<TokenModel> read_unigram(const Place& place) {
  place.require_keys({"type", "unk_id", "vocab", "byte_fallback"});
  Table table = read_table(place);
  if (table.scores.empty()) place.at("vocab").refuse("is empty");
  if (const auto unknown = place.maybe("unk_id")) {
    if (unknown->whole() >= static_cast<std::int64_t>(table.scores.size())) unknown->refuse("is not below the size of model.vocab");
    table.unknown = static_cast<std::int32_t>(unknown->whole());
  }
  return std::make_unique<Unigram>(std::move(table));
}

}  // namespace tandem::exec
