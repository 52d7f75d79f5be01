#pragma once
// A pseudo-random permutation of 0 .. size-1 without a table.

#include <array>
#include <cstdint>

namespace tandem::exec {

/// A bijection on [0, size): a four-round Feistel network over the next even power of two, repeated until the value is below size
/// (cycle walking; Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). size >= 1.
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t key);
  std::uint64_t operator()(std::uint64_t index) const;

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t size_;
  int half_bits_;
  std::array<std::uint64_t, 4> keys_;
};

/// Place of item `index` of an endless sequence that passes over `size` items again and again, each time in another order.
std::int64_t shuffled(std::int64_t index, std::int64_t size, std::uint64_t seed);

}  // namespace tandem::exec
