#include "exec/data/read_once.hpp"

#include <algorithm>
#include <utility>

namespace tandem::exec {
namespace {

class ReadOnce final : public TokenSource {
 public:
  explicit ReadOnce(std::unique_ptr<TokenSource> source)
      : source_(std::move(source)), sequences_(source_->sequences()) {}

  std::int64_t vocab_size() const override { return source_->vocab_size(); }
  std::int64_t sequences() const override { return sequences_; }
  std::uint64_t fingerprint() const override { return source_->fingerprint(); }
  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    source_->sequence(index % sequences_, tokens);
  }
  Example next_example(std::int64_t index, std::int64_t seq_length) const override {
    return once(index, source_->next_example(index % sequences_, seq_length));
  }
  std::int64_t targets(std::int64_t index, std::int64_t seq_length) const override {
    return index < sequences_ ? source_->targets(index, seq_length) : 0;
  }
  Example masked_example(std::int64_t index, const Masking& masking) const override {
    return once(index, source_->masked_example(index % sequences_, masking));
  }
  Example prefix_example(std::int64_t index, const PrefixLengths& lengths) const override {
    return once(index, source_->prefix_example(index % sequences_, lengths));
  }

 private:
  Example once(std::int64_t index, Example e) const {
    if (index < sequences_) return e;
    std::fill(e.targets.begin(), e.targets.end(), -1);
    e.label = -1;
    return e;
  }

  std::unique_ptr<TokenSource> source_;
  std::int64_t sequences_;
};

}  // namespace

std::unique_ptr<TokenSource> read_once(std::unique_ptr<TokenSource> source) {
  return std::make_unique<ReadOnce>(std::move(source));
}

}  // namespace tandem::exec
