#include "exec/data/ordered_windows.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/fnv.hpp"

namespace tandem::exec {
namespace {

class OrderedWindows final : public TokenSource {
 public:
  OrderedWindows(std::shared_ptr<const TokenFile> file, const WindowOptions& options)
      : file_(std::move(file)), options_(options), targets_(file_->count() - 1) {
    require(1 <= options.stride && options.stride <= options.length, "windows that leave tokens out");
    if (targets_ < 1)
      throw ConfigError(Problem{file_->path, "data", std::to_string(file_->count()) + (file_->holds_bytes() ? " bytes" : " tokens"),
                                "the text has no token that another one precedes", "give a longer text"});
    windows_ = 1 + (std::max<std::int64_t>(targets_ - options.length, 0) + options.stride - 1) / options.stride;
  }

  std::int64_t vocab_size() const override { return file_->vocab_size; }
  std::int64_t sequences() const override { return windows_; }
  std::uint64_t fingerprint() const override {
    std::string documents = std::to_string(options_.stride);
    for (const std::int64_t at : file_->documents) documents += " " + std::to_string(at);
    return fnv1a(documents, fnv1a(file_->stored(0, file_->count())));
  }

  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    const std::int64_t all = targets_ + 1;
    for (std::int64_t at = index * options_.stride % all; !tokens.empty(); at = 0) {
      const auto part = tokens.first(std::min(tokens.size(), static_cast<std::size_t>(all - at)));
      file_->read(at, part);
      tokens = tokens.subspan(part.size());
    }
  }

  Example next_example(std::int64_t index, std::int64_t seq_length) const override {
    require(seq_length == options_.length, "windows of another length");
    Example e = next_sequence(*this, index, seq_length);
    const std::int64_t filled = positions(index);
    std::fill_n(e.targets.begin(), first_target(index), -1);
    std::fill(e.targets.begin() + filled, e.targets.end(), -1);
    if (options_.separate) separate(index * options_.stride, filled, e);
    return e;
  }

  std::int64_t targets(std::int64_t index, std::int64_t seq_length) const override {
    const auto e = next_example(index, seq_length);
    return std::count_if(e.targets.begin(), e.targets.end(), [](std::int32_t t) { return t >= 0; });
  }

 private:
  /// Positions of a window that have a token behind them.
  std::int64_t positions(std::int64_t index) const {
    return std::clamp<std::int64_t>(targets_ - index * options_.stride, 0, options_.length);
  }
  /// The first position that no earlier window has predicted from.
  std::int64_t first_target(std::int64_t index) const { return index == 0 ? 0 : options_.length - options_.stride; }

  /// Keeps apart the documents of a window that begins with token `from`.
  void separate(std::int64_t from, std::int64_t filled, Example& e) const {
    const std::vector<std::int64_t>& all = file_->documents;
    e.documents.resize(e.tokens.size());
    std::int64_t begins = 0;
    auto next = std::upper_bound(all.begin(), all.end(), from);
    for (std::int64_t i = 0; i < options_.length; ++i) {
      e.documents[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i < filled ? begins : filled);
      if (next == all.end() || *next != from + i + 1) continue;
      e.targets[static_cast<std::size_t>(i)] = -1;
      begins = i + 1;
      ++next;
    }
  }

  std::shared_ptr<const TokenFile> file_;
  WindowOptions options_;
  std::int64_t targets_, windows_ = 0;
};

}  // namespace

std::unique_ptr<TokenSource> open_ordered(std::shared_ptr<const TokenFile> file, const WindowOptions& options) {
  return std::make_unique<OrderedWindows>(std::move(file), options);
}

}  // namespace tandem::exec
