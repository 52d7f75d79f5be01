#pragma once
// Dropout masks, drawn again wherever they are needed and never stored.

#include <algorithm>
#include <array>
#include <cstdint>

#include "exec/backend.hpp"
#include "exec/cpu/lanes.hpp"
#include "exec/random.hpp"

namespace tandem::exec::cpu {

/// The factors 0 or 1/(1 - rate) of one site in one layer and step.
template <class T>
class Dropout {
 public:
  Dropout(const KernelContext& context, DropoutSite site, double rate)
      : stream_(RandomStream::dropout(context.seed, site, context.step, context.layer)),
        threshold_(drop_threshold(rate)),
        scale_(static_cast<T>(1 / (1 - rate))) {}

  /// body(i, factor) for i in [0, n), with the factor of global index first + i.
  template <class F>
  void each(std::uint64_t first, std::int64_t n, F body) const {
    if (threshold_ == 0) return cpu::each(n, [&](std::int64_t i) { body(i, T{1}); });
    for (std::int64_t begin = 0; begin < n; begin += kChunk) {
      const std::int64_t count = std::min(kChunk, n - begin);
      each_drawn(first + static_cast<std::uint64_t>(begin), count,
                 [&](std::int64_t i, T factor) { body(begin + i, factor); });
    }
  }

 private:
  static constexpr std::int64_t kChunk = 512;

  template <class F>
  void each_drawn(std::uint64_t first, std::int64_t n, F body) const {
    std::array<std::uint32_t, kChunk> bits;
    stream_.fill_bits(first, {bits.data(), static_cast<std::size_t>(n)});
    cpu::each(n, [&, t = threshold_, s = scale_](std::int64_t i) { body(i, bits[i] < t ? T{0} : s); });
  }

  RandomStream stream_;
  std::uint32_t threshold_;
  T scale_;
};

/// Global token of a micro-batch's row 0: what a hidden-state mask counts rows from.
inline std::int64_t first_token(const KernelContext& context, std::int64_t seq_length) {
  return context.first_sequence * seq_length;
}

}  // namespace tandem::exec::cpu
