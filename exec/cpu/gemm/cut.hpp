#pragma once
// How a large product is cut into pieces for several threads.

#include <cstdint>

namespace tandem::exec::cpu {

enum class CutAlong : std::uint8_t { rows, columns, sum };

/// A cut into pieces of `extent` rows, columns or terms each, except the last.
struct Cut {
  CutAlong along = CutAlong::rows;
  std::int64_t extent = 0;  ///< 0: one piece

  friend bool operator==(const Cut&, const Cut&) = default;
};

/// The cut of c[m,n] = a[m,k] b[k,n]. It depends only on the shape: libraries choose kernels by shape, and these round differently.
/// So a product has the same pieces for any number of threads.
Cut cut_of(std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace tandem::exec::cpu
