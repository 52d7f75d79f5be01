#pragma once
// How a large product is cut into pieces that threads may share.

#include <cstdint>

namespace tandem::exec::cpu {

enum class CutAlong : std::uint8_t { rows, columns, sum };

/// Pieces of a product, `extent` rows, columns or terms of the sums each but the last.
struct Cut {
  CutAlong along = CutAlong::rows;
  std::int64_t extent = 0;  ///< 0: one piece

  friend bool operator==(const Cut&, const Cut&) = default;
};

/// The cut of c[m,n] = a[m,k] b[k,n]. It depends on the shape alone: libraries choose kernels by shape, and kernels round apart, so a
/// product has the same pieces whoever computes them.
Cut cut_of(std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace tandem::exec::cpu
