#pragma once
// The merges of a BPE model.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::exec {

/// What a pair of tokens becomes; smaller ranks are merged first.
struct Merge {
  std::int32_t rank, token;
};

/// Merges by pair of tokens, in one open table.
class Merges {
 public:
  explicit Merges(std::size_t count) : places_(room(count)) {}

  /// A later merge of the same pair replaces an earlier one.
  void add(std::int32_t left, std::int32_t right, Merge merge) { places_[place(key(left, right))] = {key(left, right), merge}; }
  /// nullptr: the pair is not merged.
  const Merge* find(std::int32_t left, std::int32_t right) const {
    const Entry& entry = places_[place(key(left, right))];
    return entry.key == kFree ? nullptr : &entry.merge;
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Entry {
    std::uint64_t key = kFree;
    Merge merge{};
  };

  /// A power of two, at most half of it taken.
  static std::size_t room(std::size_t count) {
    std::size_t size = 16;
    while (size < 2 * count) size *= 2;
    return size;
  }
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t place(std::uint64_t key) const {
    std::size_t at = static_cast<std::size_t>((key ^ key >> 29) * 0xBF58476D1CE4E5B9U >> 20) & (places_.size() - 1);
    while (places_[at].key != kFree && places_[at].key != key) at = (at + 1) & (places_.size() - 1);
    return at;
  }

  std::vector<Entry> places_;
};

}  // namespace tandem::exec
