#pragma once
// Stateless random numbers. Each is a function of (seed, purpose, step, layer, global index). So it is the same on every rank, in
// every micro-batch, and each time it is drawn.

#include <array>
#include <cstdint>
#include <span>

#include "models/ops/op.hpp"

namespace tandem::exec {

using PhiloxBlock = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// Philox4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11, section 3.3).
PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key);

/// The upper 53 of 64 bits as a fraction in [0, 1).
constexpr double fraction(std::uint32_t lower, std::uint32_t upper) {
  const std::uint64_t bits = (std::uint64_t{upper} << 32 | lower) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

/// A named endless sequence of random numbers, indexed globally. Differently named sequences are independent: name and index form
/// the generator's counter, the seed its key.
class RandomStream {
 public:
  /// The masks of one dropout site. `layer`: global layer below 65535, -1 outside the blocks. `step` below 2^40.
  static RandomStream dropout(std::uint64_t seed, DropoutSite site, std::uint64_t step, std::int32_t layer);
  /// Initial values of a parameter. Tied copies share `init_id`.
  static RandomStream initial(std::uint64_t seed, std::int32_t init_id);
  /// The stochastic rounding of one buffer of a parameter in a step. `step` below 2^32, `init_id` below 2^22, `buffer` below 4.
  static RandomStream rounding(std::uint64_t seed, std::uint64_t step, std::int32_t init_id, std::uint32_t buffer);
  /// The random choices in the training example of one sequence. `sequence` below 2^56.
  static RandomStream example(std::uint64_t seed, std::int64_t sequence);

  /// 32 uniform bits.
  std::uint32_t bits(std::uint64_t index) const;
  /// The bits of indices first, first + 1, ...; four per Philox block.
  void fill_bits(std::uint64_t first, std::span<std::uint32_t> out) const;
  /// Uniform in [0, 1) with 53 bits.
  double uniform(std::uint64_t index) const;

 private:
  RandomStream(std::uint64_t seed, std::uint32_t name_low, std::uint32_t name_high);
  PhiloxBlock block(std::uint64_t index) const;

  PhiloxKey key_;
  std::array<std::uint32_t, 2> name_;
};

/// Elements whose 32 random bits are below rate * 2^32, the returned value, are dropped. `rate` in [0, 1).
std::uint32_t drop_threshold(double rate);

}  // namespace tandem::exec
