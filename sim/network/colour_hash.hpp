#pragma once
// Hashes of the classes that a member of a partition is connected to (its colour in colour refinement).

#include <compare>
#include <cstdint>

namespace tandem::sim::colour {

/// 128 bits of hash: with a million members the chance of one false merge is below 1e-26.
struct Hash {
  std::uint64_t a = 0x9e3779b97f4a7c15, b = 0xd1b54a32d192ed03;
  auto operator<=>(const Hash&) const = default;
};

/// The finaliser of splitmix64 (Steele, Lea and Flood 2014).
inline std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Adds a value to a hash; order matters.
inline void then(Hash& h, std::uint64_t value) {
  h.a = scramble(h.a ^ value) + 0x9e3779b97f4a7c15;
  h.b = scramble(h.b + value * 0xff51afd7ed558ccd) + 0xc4ceb9fe1a85ec53;
}

/// Adds an item to a sum; order does not matter. Items are scrambled already: they come from `then`.
inline void gather(Hash& sum, const Hash& item) {
  sum.a += item.a;
  sum.b += item.b;
}

/// Undoes `gather`.
inline void take_off(Hash& sum, const Hash& item) {
  sum.a -= item.a;
  sum.b -= item.b;
}

/// Packs two small numbers into one.
inline std::uint64_t both(std::uint64_t a, std::uint64_t b) { return a << 32 | (b & UINT32_MAX); }

inline void then_hash(Hash& h, const Hash& other) {
  then(h, other.a);
  then(h, other.b);
}

}  // namespace tandem::sim::colour
