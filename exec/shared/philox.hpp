#pragma once
// Random bits as a function of seed, name and global index, on any processor. exec/data/random draws the same bits.

#include <cstdint>

#include "models/ops/dropout_site.hpp"

namespace tandem::exec {

/// Selects an endless sequence of random numbers.
struct RandomName {
  std::uint32_t low = 0, high = 0;
};

// The top byte of a name: a DropoutSite or one of these.
inline constexpr std::uint32_t kInitialValues = 0x80, kExamples = 0x81, kRounding = 0x82;

/// The masks of one dropout site in one layer (below 65535; -1: outside the blocks) and step (below 2^40).
constexpr RandomName dropout_name(DropoutSite site, std::uint64_t step, std::int32_t layer) {
  const auto layer_bits = static_cast<std::uint32_t>(layer + 1);
  return {static_cast<std::uint32_t>(step),
          static_cast<std::uint32_t>(site) << 24 | layer_bits << 8 | static_cast<std::uint32_t>(step >> 32)};
}

/// The stochastic rounding of one buffer of a parameter in a step. `step` below 2^32, `init_id` below 2^22, `buffer` below 4.
constexpr RandomName rounding_name(std::uint64_t step, std::uint32_t init_id, std::uint32_t buffer) {
  return {static_cast<std::uint32_t>(step), kRounding << 24 | buffer << 22 | init_id};
}

/// Four words of Philox4x32 with 10 rounds (Salmon et al., SC'11, section 3.3).
struct PhiloxWords {
  std::uint32_t w0, w1, w2, w3;
};

constexpr PhiloxWords philox_words(std::uint64_t seed, RandomName name, std::uint64_t block) {
  constexpr std::uint64_t m0 = 0xD2511F53, m1 = 0xCD9E8D57;
  constexpr std::uint32_t weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;
  PhiloxWords c{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), name.low, name.high};
  auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int r = 0; r < 10; ++r, k0 += weyl0, k1 += weyl1) {
    const std::uint64_t a = m0 * c.w0, b = m1 * c.w2;
    c = {static_cast<std::uint32_t>(b >> 32) ^ c.w1 ^ k0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c.w3 ^ k1, static_cast<std::uint32_t>(a)};
  }
  return c;
}

/// The 32 random bits of an index. Four indices share one block of words.
constexpr std::uint32_t random_bits(std::uint64_t seed, RandomName name, std::uint64_t index) {
  const PhiloxWords words = philox_words(seed, name, index / 4);
  const std::uint32_t place = index % 4;
  return place == 0 ? words.w0 : place == 1 ? words.w1 : place == 2 ? words.w2 : words.w3;
}

}  // namespace tandem::exec
