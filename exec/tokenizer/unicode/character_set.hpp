#pragma once
// Sets of Unicode characters.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::exec {

/// A set of characters as one bit each: 139 KB.
class CharacterSet {
 public:
  bool has(char32_t c) const { return (bits_[c >> 6] >> (c & 63) & 1) != 0; }
  void add(char32_t c) { bits_[c >> 6] |= std::uint64_t{1} << (c & 63); }
  void remove(char32_t c) { bits_[c >> 6] &= ~(std::uint64_t{1} << (c & 63)); }
  /// Adds `first` to `last`, both included.
  void add(char32_t first, char32_t last) {
    for (char32_t c = first; c <= last; ++c) add(c);
  }
  CharacterSet& operator|=(const CharacterSet& other) {
    for (std::size_t i = 0; i < bits_.size(); ++i) bits_[i] |= other.bits_[i];
    return *this;
  }
  /// All characters that are not in this set.
  CharacterSet operator~() const {
    CharacterSet out;
    for (std::size_t i = 0; i < bits_.size(); ++i) out.bits_[i] = ~bits_[i];
    return out;
  }

 private:
  std::vector<std::uint64_t> bits_ = std::vector<std::uint64_t>(0x110000 / 64);
};

}  // namespace tandem::exec
