#include "exec/data/data.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "exec/data/permutation.hpp"
#include "exec/data/text_range.hpp"
#include "models/base/error.hpp"
#include "models/base/fnv.hpp"

namespace tandem::exec {
namespace {

std::int64_t tokens_of(std::int64_t size, const TextPart& part) {
  const auto [first, last] = range_of(size, part);
  return last - first;
}

/// The shortest text whose part has `wanted` tokens.
std::int64_t shortest_text(std::int64_t wanted, const TextPart& part) {
  require(part.begin < part.end, "a part of a text is not empty");
  auto size = static_cast<std::int64_t>(static_cast<double>(wanted - 1) / (part.end - part.begin));
  while (tokens_of(size, part) < wanted) ++size;
  return size;
}

/// What a text needs for a sequence in the part; where the part ends early, in the rest as well, which evaluations read.
std::string remedy(const TextPart& part, std::int64_t wanted, std::int64_t size, const std::string& unit) {
  const bool whole = part.begin == 0 && part.end == 1;
  const std::int64_t rest = part.end < 1 ? shortest_text(wanted, {part.end, 1}) : 0;
  return "give at least " + std::to_string(std::max(shortest_text(wanted, part), rest)) + unit +
         (whole || size < wanted ? "" : ", or a text of its own as --eval-data") + ", or shorten training.seq_length";
}

/// The part of a text, as a message names it.
std::string part_name(const TextPart& part) {
  const auto percent = [](double share) { return std::to_string(std::llround(100 * share)) + " %"; };
  if (part.begin > 0) return "its last " + percent(1 - part.begin) + ", which is held out for evaluations,";
  return part.end < 1 ? "its first " + percent(part.end) + ", as the rest is held out for evaluations," : "the text";
}

/// Throws ConfigError if the part has no sequence with its last target: `wanted` tokens.
void require_sequence(const TokenFile& file, const TextPart& part, std::int64_t wanted) {
  const std::int64_t size = file.count(), has = tokens_of(size, part);
  if (has >= wanted) return;
  const std::string unit = file.holds_bytes() ? " bytes" : " tokens";
  const bool whole = part.begin == 0 && part.end == 1;
  throw ConfigError(Problem{file.path, "data", std::to_string(size) + unit,
                            part_name(part) + " is shorter than a sequence with its last target, " + std::to_string(wanted) + unit +
                                (whole ? "" : ": it has " + std::to_string(has)),
                            remedy(part, wanted, size, unit)});
}

/// Window w holds tokens [w*seq, (w+1)*seq] of the text. A window's last target is the next window's first input.
class Windows final : public TokenSource {
 public:
  Windows(std::shared_ptr<const TokenFile> file, std::int64_t seq_length, std::uint64_t seed, const TextPart& part)
      : file_(std::move(file)), seq_length_(seq_length), seed_(seed) {
    require(seq_length >= 1, "a sequence has at least one token");
    require_sequence(*file_, part, seq_length + 1);
    std::tie(first_, last_) = range_of(file_->count(), part);
    windows_ = (last_ - first_ - 1) / seq_length;
  }

  std::int64_t vocab_size() const override { return file_->vocab_size; }
  std::int64_t sequences() const override { return windows_; }
  std::uint64_t fingerprint() const override { return fnv1a(file_->stored(first_, last_)); }

  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    require(static_cast<std::int64_t>(tokens.size()) == seq_length_ + 1, "a sequence is seq_length + 1 tokens");
    file_->read(first_ + shuffled(index, windows_, seed_) * seq_length_, tokens);
  }

 private:
  std::shared_ptr<const TokenFile> file_;
  std::int64_t first_ = 0, last_ = 0;
  std::int64_t seq_length_, windows_ = 0;
  std::uint64_t seed_;
};

}  // namespace

std::pair<std::int64_t, std::int64_t> range_of(std::int64_t size, const TextPart& part) {
  require(0 <= part.begin && part.begin <= part.end && part.end <= 1, "a part of a text lies within it");
  const auto at = [size](double fraction) { return static_cast<std::int64_t>(static_cast<double>(size) * fraction); };
  return {at(part.begin), at(part.end)};
}

std::unique_ptr<TokenSource> open_tokens(std::shared_ptr<const TokenFile> file, std::int64_t seq_length, std::uint64_t seed,
                                         const TextPart& part) {
  return std::make_unique<Windows>(std::move(file), seq_length, seed, part);
}

std::unique_ptr<TokenSource> open_tokens(const std::string& path, std::int64_t seq_length, std::uint64_t seed,
                                         const TextPart& part) {
  return open_tokens(read_token_file(path), seq_length, seed, part);
}

std::optional<double> bigram_entropy(const TokenFile& file) {
  if (!file.holds_bytes()) return std::nullopt;
  const std::string_view bytes = file.bytes;
  if (bytes.size() < 2) throw ConfigError(Problem{file.path, "data", "", "the text has no pair of bytes", ""});
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  std::vector<std::int64_t> pairs(256 * 256), firsts(256);
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
    ++pairs[byte(i) * std::size_t{256} + byte(i + 1)];
    ++firsts[byte(i)];
  }
  double sum = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    if (pairs[i] > 0)
      sum -= static_cast<double>(pairs[i]) * std::log(static_cast<double>(pairs[i]) / static_cast<double>(firsts[i / 256]));
  return sum / static_cast<double>(bytes.size() - 1);
}

}  // namespace tandem::exec
