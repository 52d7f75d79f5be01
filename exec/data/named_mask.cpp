#include "exec/data/named_mask.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/fnv.hpp"

namespace tandem::exec {
namespace {

/// Examples are made with the mask and the vocabulary's last token in each other's place, where every mask is the last token.
class WithMask final : public TokenSource {
 public:
  WithMask(std::unique_ptr<TokenSource> source, const NamedMask& mask) : source_(std::move(source)), mask_(mask) {}

  std::int64_t vocab_size() const override {
    const std::int64_t all = source_->vocab_size();
    return all == mask_.vocab_size ? all - 1 : all;  // the mask is one of them, not one more
  }
  std::int64_t sequences() const override { return source_->sequences(); }
  double epochs(double samples) const override { return source_->epochs(samples); }
  std::uint64_t fingerprint() const override {
    const std::uint64_t text = source_->fingerprint();
    return text == 0 ? 0 : fnv1a("mask " + std::to_string(mask_.token), text);
  }
  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    source_->sequence(index, tokens);
    exchange(tokens);
  }
  Example masked_example(std::int64_t index, const Masking& masking) const override {
    require(masking.mask_token == mask_.vocab_size - 1, "a mask that is not the last token");
    Example e = mask_sequence(*this, index, masking);
    exchange(e.tokens);
    exchange(e.targets);
    return e;
  }

 private:
  void exchange(std::span<std::int32_t> tokens) const {
    const auto last = static_cast<std::int32_t>(mask_.vocab_size - 1);
    for (std::int32_t& t : tokens)
      if (t == last || t == mask_.token) t = t == last ? mask_.token : last;
  }

  std::unique_ptr<TokenSource> source_;
  NamedMask mask_;
};

}  // namespace

std::unique_ptr<TokenSource> with_mask(std::unique_ptr<TokenSource> source, const NamedMask& mask) {
  require(mask.token >= 0 && mask.token < mask.vocab_size, "a mask outside the vocabulary");
  return std::make_unique<WithMask>(std::move(source), mask);
}

}  // namespace tandem::exec
