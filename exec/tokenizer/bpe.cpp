#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "exec/tokenizer/merges.hpp"
#include "exec/tokenizer/model.hpp"
#include "exec/tokenizer/unicode/utf8.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

struct Options {
  std::string file, unknown, prefix, suffix;
  bool has_unknown = false, fuse_unknown = false, bytes = false, whole_words = false;
};

constexpr std::int32_t kNone = -1;

/// A token of the piece, in a list of its neighbours; -1: none. Merged into its left neighbour if `gone`.
struct Symbol {
  std::int32_t token;
  std::int32_t before, behind;
  bool gone = false;
};

struct Waiting {
  std::int32_t rank, at, token;
  /// The heap's top is the smallest rank, of which the leftmost.
  bool operator<(const Waiting& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
};

class Bpe final : public TokenModel {
 public:
  Bpe(Options options, Vocabulary vocabulary, Merges merges)
      : options_(std::move(options)), vocabulary_(std::move(vocabulary)), merges_(std::move(merges)) {}

  void tokenize(std::string_view piece, std::vector<std::int32_t>& ids) override {
    if (options_.whole_words)
      if (const auto whole = vocabulary_.find(piece)) return ids.push_back(*whole);
    begin(piece);
    merge();
    for (const Symbol& symbol : symbols_)
      if (!symbol.gone) ids.push_back(symbol.token);
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  void add(std::int32_t token) {
    const auto at = static_cast<std::int32_t>(symbols_.size());
    symbols_.push_back({token, at - 1, -1});
    if (at > 0) symbols_[static_cast<std::size_t>(at) - 1].behind = at;
  }

  /// The piece's characters, or their bytes, as tokens.
  void begin(std::string_view piece) {
    symbols_.clear();
    std::int32_t unknown = kNone;
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t from = at;
      next_character(piece, at);
      character_.clear();
      if (from > 0) character_ += options_.prefix;
      character_ += piece.substr(from, at - from);
      if (at == piece.size()) character_ += options_.suffix;
      if (const auto known = vocabulary_.find(character_)) {
        if (unknown != kNone) add(std::exchange(unknown, kNone));
        add(*known);
      } else {
        add_unknown(unknown);
      }
    }
    if (unknown != kNone) add(unknown);
  }

  /// Adds character_ as bytes, or keeps the token for what is unknown until something else follows.
  void add_unknown(std::int32_t& unknown) {
    if (options_.bytes)
      if (const auto bytes = vocabulary_.bytes(character_)) {
        for (const std::int32_t byte : *bytes) add(byte);
        return;
      }
    if (!options_.has_unknown) return;  // the library leaves the character out
    if (unknown != kNone && options_.fuse_unknown) return;
    if (unknown != kNone) add(unknown);
    unknown = vocabulary_.find(options_.unknown).value_or(kNone);
    if (unknown == kNone)
      throw ConfigError(Problem{options_.file, "model.unk_token", options_.unknown, "is not in the vocabulary, and the text has \"" + character_ + "\", which is not either",
                                "add the token to the vocabulary"});
  }

  void wait(std::int32_t at) {
    if (at < 0) return;
    const Symbol& left = symbols_[static_cast<std::size_t>(at)];
    if (left.behind < 0) return;
    const Merge* merge = merges_.find(left.token, symbols_[static_cast<std::size_t>(left.behind)].token);
    if (merge == nullptr) return;
    heap_.push_back({merge->rank, at, merge->token});
    std::push_heap(heap_.begin(), heap_.end());
  }

  void merge() {
    heap_.clear();
    for (std::size_t at = 0; at + 1 < symbols_.size(); ++at) wait(static_cast<std::int32_t>(at));
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      const Waiting top = heap_.back();
      heap_.pop_back();
      Symbol& left = symbols_[static_cast<std::size_t>(top.at)];
      if (left.gone || left.behind < 0) continue;
      Symbol& right = symbols_[static_cast<std::size_t>(left.behind)];
      const Merge* merge = merges_.find(left.token, right.token);
      if (merge == nullptr || merge->token != top.token) continue;  // the neighbours have changed
      left.token = top.token, left.behind = right.behind, right.gone = true;
      if (left.behind >= 0) symbols_[static_cast<std::size_t>(left.behind)].before = top.at;
      wait(left.before);
      wait(top.at);
    }
  }

  Options options_;
  Vocabulary vocabulary_;
  Merges merges_;
  std::vector<Symbol> symbols_;
  std::vector<Waiting> heap_;
  std::string character_;
};

/// The two tokens of a merge: ["a", "b"] or "a b".
std::pair<std::string, std::string> read_pair(const Place& place) {
  if (place.json().is_array()) {
    const auto both = place.list();
    if (both.size() != 2) place.refuse("is no pair of tokens");
    return {both[0].text(), both[1].text()};
  }
  const std::string text = place.text();
  const std::size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) place.refuse("is no pair of tokens: it has not one space");
  return {text.substr(0, space), text.substr(space + 1)};
}

Merges read_merges(const Place& place, const Vocabulary& vocabulary, std::size_t prefix) {
  const auto all = place.list();
  Merges out(all.size());
  std::int32_t rank = 0;
  for (const Place& one : all) {
    if (one.json().is_string() && one.text().starts_with("#version")) continue;
    const auto [left, right] = read_pair(one);
    const auto a = vocabulary.find(left), b = vocabulary.find(right);
    if (!a || !b || right.size() < prefix) one.refuse("has a token that is not in model.vocab");
    const auto both = vocabulary.find(left + right.substr(prefix));
    if (!both) one.refuse("makes a token that is not in model.vocab");
    out.add(*a, *b, {rank++, *both});
  }
  return out;
}

}  // namespace

std::unique_ptr<TokenModel> byte_pair_model(const std::string& file, Vocabulary vocabulary, Merges merges) {
  Options options;
  options.file = file, options.whole_words = true;
  return std::make_unique<Bpe>(std::move(options), std::move(vocabulary), std::move(merges));
}

std::unique_ptr<TokenModel> read_bpe(const Place& place) {
  place.require_keys({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback",
                      "ignore_merges", "vocab", "merges"});
  const auto dropout = place.maybe("dropout");
  if (dropout && dropout->number() != 0) dropout->refuse("draws other tokens each time, which this version does not", "set it to null");
  Options options;
  options.file = place.file();
  options.has_unknown = place.maybe("unk_token").has_value();
  options.unknown = place.text_or("unk_token", "");
  options.prefix = place.text_or("continuing_subword_prefix", ""), options.suffix = place.text_or("end_of_word_suffix", "");
  options.fuse_unknown = place.flag_or("fuse_unk", false), options.bytes = place.flag_or("byte_fallback", false);
  options.whole_words = place.flag_or("ignore_merges", false);
  Vocabulary vocabulary = read_vocabulary(place.at("vocab"));
  Merges merges = read_merges(place.at("merges"), vocabulary, options.prefix.size());
  return std::make_unique<Bpe>(std::move(options), std::move(vocabulary), std::move(merges));
}

}  // namespace tandem::exec
