#pragma once
// Places of tensors whose lifetimes are all known, in few bytes: offline dynamic storage allocation.

#include <cstdint>
#include <vector>

namespace tandem::lowering {

/// A tensor between two moments, which are counted from 0. Two that share a moment share no bytes.
struct Lifetime {
  std::int64_t bytes;        ///< above 0
  std::int32_t first, last;  ///< moments, inclusive
  std::int64_t offset;       ///< bytes
};

/// The most bytes that live at one moment. No layout has fewer.
std::int64_t most_alive(const std::vector<Lifetime>& tensors);

/// Offsets are a layout, and become one that ends no higher: the best of a few orders in which tensors take the lowest free bytes. The
/// same tensors in the same order get the same places.
void lay_out(std::vector<Lifetime>& tensors);

}  // namespace tandem::lowering
