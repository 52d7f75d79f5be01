#pragma once
// Places tensors with known lifetimes in few bytes (offline dynamic storage allocation).

#include <cstdint>
#include <vector>

namespace tandem::lowering {

/// A tensor with its lifetime in moments, counted from 0. Tensors that share a moment share no bytes.
struct Lifetime {
  std::int64_t bytes;        ///< above 0
  std::int32_t first, last;  ///< moments, inclusive
  std::int64_t offset;       ///< bytes
};

/// Largest sum of bytes alive at one moment: a lower bound for any layout.
std::int64_t most_alive(const std::vector<Lifetime>& tensors);

/// Improves the layout given by the offsets, or leaves its end as it is. Tries a few orders in
/// which tensors take the lowest free bytes. Deterministic: equal input gives equal places.
void lay_out(std::vector<Lifetime>& tensors);

}  // namespace tandem::lowering
