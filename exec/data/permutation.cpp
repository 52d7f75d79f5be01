#include "exec/data/permutation.hpp"

#include <algorithm>
#include <bit>

#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

/// The mixing function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// Half the bit length of the largest value, rounded up; at least 1.
int half_bits(std::uint64_t size) { return std::max(1, static_cast<int>(std::bit_width(size - 1) + 1) / 2); }

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t key)
    : size_(size), half_bits_(half_bits(size)), keys_{} {
  require(size >= 1, "a permutation of nothing");
  for (std::size_t i = 0; i < keys_.size(); ++i) keys_[i] = mix(key + i * 0x9E3779B97F4A7C15);
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_, right = value & mask;
  for (const auto key : keys_) {
    const auto next = left ^ (mix(right ^ key) & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  do index = encrypt(index);
  while (index >= size_);
  return index;
}

std::int64_t shuffled(std::int64_t index, std::int64_t size, std::uint64_t seed) {
  require(index >= 0, "sequences are counted from zero");
  const auto epoch = static_cast<std::uint64_t>(index / size);
  const Permutation order(static_cast<std::uint64_t>(size), seed ^ epoch * 0xD1342543DE82EF95);
  return static_cast<std::int64_t>(order(static_cast<std::uint64_t>(index % size)));
}

}  // namespace tandem::exec
