#include "exec/data/separate_windows.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "exec/data/permutation.hpp"
#include "exec/data/text_range.hpp"
#include "models/base/error.hpp"
#include "models/base/fnv.hpp"

namespace tandem::exec {
namespace {

class SeparateWindows final : public TokenSource {
 public:
  SeparateWindows(std::shared_ptr<const TokenFile> file, std::int64_t seq_length, std::uint64_t seed, const TextPart& part)
      : file_(std::move(file)), windows_(open_tokens(file_, seq_length, seed, part)), seed_(seed),
        first_(range_of(file_->count(), part).first) {
    const std::int64_t all = windows_->sequences() * seq_length;
    if (beginnings(first_ + 1, first_ + 1 + all) == all)
      throw ConfigError(Problem{file_->path, "data", std::to_string(file_->documents.size()) + " documents",
                                "no document has a second token that could be predicted", "set training.documents to joined"});
  }

  std::int64_t vocab_size() const override { return windows_->vocab_size(); }
  std::int64_t sequences() const override { return windows_->sequences(); }
  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override { windows_->sequence(index, tokens); }

  std::uint64_t fingerprint() const override {
    std::string text = std::to_string(windows_->fingerprint());
    for (const std::int64_t at : file_->documents) text += " " + std::to_string(at);
    return fnv1a(text);
  }

  Example next_example(std::int64_t index, std::int64_t seq_length) const override {
    Example e = next_sequence(*this, index, seq_length);
    e.documents.resize(e.tokens.size());
    const std::int64_t from = first_token(index, seq_length);
    std::int64_t begins = 0;
    auto next = std::upper_bound(file_->documents.begin(), file_->documents.end(), from);
    for (std::int64_t i = 0; i < seq_length; ++i) {
      const bool ends = next != file_->documents.end() && *next == from + i + 1;
      e.documents[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(begins);
      if (!ends) continue;
      e.targets[static_cast<std::size_t>(i)] = -1;
      begins = i + 1;
      next = std::upper_bound(next, file_->documents.end(), from + i + 1);
    }
    return e;
  }

  std::int64_t targets(std::int64_t index, std::int64_t seq_length) const override {
    const std::int64_t from = first_token(index, seq_length);
    return seq_length - beginnings(from + 1, from + 1 + seq_length);
  }

 private:
  std::int64_t first_token(std::int64_t index, std::int64_t seq_length) const {
    return first_ + shuffled(index, windows_->sequences(), seed_) * seq_length;
  }
  /// Number of tokens from `from` to `to` - 1 that begin a document.
  std::int64_t beginnings(std::int64_t from, std::int64_t to) const {
    const auto at = [&](std::int64_t token) { return std::lower_bound(file_->documents.begin(), file_->documents.end(), token); };
    return at(to) - at(from);
  }

  std::shared_ptr<const TokenFile> file_;
  std::unique_ptr<TokenSource> windows_;
  std::uint64_t seed_;
  std::int64_t first_;
};

}  // namespace

std::unique_ptr<TokenSource> open_separate(std::shared_ptr<const TokenFile> file, std::int64_t seq_length, std::uint64_t seed,
                                           const TextPart& part) {
  return std::make_unique<SeparateWindows>(std::move(file), seq_length, seed, part);
}

}  // namespace tandem::exec
