#include "exec/data/started_at.hpp"

#include <algorithm>
#include <utility>

#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

class StartedAt final : public TokenSource {
 public:
  StartedAt(std::unique_ptr<TokenSource> source, std::int64_t first) : source_(std::move(source)), first_(first) {}

  std::int64_t vocab_size() const override { return source_->vocab_size(); }
  std::int64_t sequences() const override { return source_->sequences(); }
  double epochs(double samples) const override { return source_->epochs(std::max(0.0, samples - static_cast<double>(first_))); }
  std::uint64_t fingerprint() const override { return source_->fingerprint(); }
  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override { source_->sequence(own(index), tokens); }
  Example next_example(std::int64_t index, std::int64_t seq_length) const override {
    return source_->next_example(own(index), seq_length);
  }
  std::int64_t targets(std::int64_t index, std::int64_t seq_length) const override {
    return source_->targets(own(index), seq_length);
  }
  Example masked_example(std::int64_t index, const Masking& masking) const override {
    return source_->masked_example(own(index), masking);
  }
  Example prefix_example(std::int64_t index, const PrefixLengths& lengths) const override {
    return source_->prefix_example(own(index), lengths);
  }

 private:
  std::int64_t own(std::int64_t index) const {
    require(index >= first_, "a sequence before the first one of its source");
    return index - first_;
  }

  std::unique_ptr<TokenSource> source_;
  std::int64_t first_;
};

}  // namespace

std::unique_ptr<TokenSource> started_at(std::unique_ptr<TokenSource> source, std::int64_t first) {
  if (first == 0) return source;
  return std::make_unique<StartedAt>(std::move(source), first);
}

}  // namespace tandem::exec
