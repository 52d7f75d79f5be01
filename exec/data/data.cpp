#include "exec/data/data.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "exec/data/permutation.hpp"
#include "models/base/error.hpp"
#include "models/base/fnv.hpp"

namespace tandem::exec {
namespace {

/// Indices of the first token of a part and of the first one after it.
std::pair<std::int64_t, std::int64_t> part_of(const TokenFile& file, const TextPart& part) {
  require(0 <= part.begin && part.begin <= part.end && part.end <= 1, "a part of a text lies within it");
  const auto size = static_cast<double>(file.count());
  const auto at = [size](double fraction) { return static_cast<std::int64_t>(size * fraction); };
  return {at(part.begin), at(part.end)};
}

/// Window w holds tokens [w*seq, (w+1)*seq] of the text. A window's last target is the next window's first input.
class Windows final : public TokenSource {
 public:
  Windows(std::shared_ptr<const TokenFile> file, std::int64_t seq_length, std::uint64_t seed, const TextPart& part)
      : file_(std::move(file)), seq_length_(seq_length), seed_(seed) {
    require(seq_length >= 1, "a sequence has at least one token");
    std::tie(first_, last_) = part_of(*file_, part);
    const std::string unit = file_->holds_bytes() ? " bytes" : " tokens";
    if (last_ - first_ < seq_length + 1)
      throw ConfigError(Problem{file_->path, "data", std::to_string(last_ - first_) + unit,
                                std::string(part.end - part.begin < 1 ? "the part of the text that is read" : "the text") +
                                    " is shorter than one sequence and its last target",
                                "give at least " + std::to_string(seq_length + 1) + unit + ", or shorten training.seq_length"});
    windows_ = (last_ - first_ - 1) / seq_length;
  }

  std::int64_t vocab_size() const override { return file_->vocab_size; }
  std::int64_t sequences() const override { return windows_; }
  std::uint64_t fingerprint() const override { return fnv1a(file_->stored(first_, last_)); }

  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    require(index >= 0, "sequences are counted from zero");
    require(static_cast<std::int64_t>(tokens.size()) == seq_length_ + 1, "a sequence is seq_length + 1 tokens");
    file_->read(first_ + window(index) * seq_length_, tokens);
  }

 private:
  std::int64_t window(std::int64_t index) const {
    const auto epoch = static_cast<std::uint64_t>(index / windows_);
    const Permutation order(static_cast<std::uint64_t>(windows_), seed_ ^ epoch * 0xD1342543DE82EF95);
    return static_cast<std::int64_t>(order(static_cast<std::uint64_t>(index % windows_)));
  }

  std::shared_ptr<const TokenFile> file_;
  std::int64_t first_ = 0, last_ = 0;
  std::int64_t seq_length_, windows_ = 0;
  std::uint64_t seed_;
};

}  // namespace

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
