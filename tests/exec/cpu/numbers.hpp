#pragma once
// Numbers in place of a text, for tests that train.

#include <cstdint>
#include <span>

#include "exec/data/data.hpp"
#include "exec/data/masked_example.hpp"

namespace tandem::exec::test {

/// Tokens that are a function of the sequence's index, counted from `first`.
class Numbers : public TokenSource {
 public:
  explicit Numbers(std::int64_t first = 0) : first_(first) {}
  std::int64_t vocab_size() const override { return 36; }
  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    auto x = static_cast<std::uint64_t>(first_ + index) * 0x9e3779b97f4a7c15ull + 7;
    for (std::int32_t& t : tokens) {
      x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull;
      t = static_cast<std::int32_t>((x >> 20) % 36);
    }
  }

  /// What is hidden follows the sequence too.
  Example masked_example(std::int64_t index, const Masking& masking) const override {
    return mask_sequence(Numbers(), first_ + index, masking);
  }

 private:
  std::int64_t first_;
};

}  // namespace tandem::exec::test
