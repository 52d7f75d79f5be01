#pragma once
// The one door to matrix products: Eigen multiplies in fp64, oneDNN in fp32 where the build has it, else Eigen.

#include <cstdint>

namespace tandem::exec::cpu {

/// A factor as it lies: row-major, `stride` elements from row to row, or the transpose of what lies so.
template <class T>
struct Factor {
  const T* data;
  std::int64_t stride;
  bool transposed = false;
};

/// c[m,n] = scale a[m,k] b[k,n], added to what is there if `add`. `c` overlaps no factor.
template <class T>
struct Product {
  std::int64_t m, n, k;
  Factor<T> a, b;
  T* c;
  std::int64_t c_stride;
  T scale = T{1};
  bool add = false;
};

/// On the calling thread alone. Equal products of equal numbers have equal bits, if all operands begin alike on a cache line.
void multiply(const Product<double>& product);
void multiply(const Product<float>& product);

/// Makes what products of this process share, once. Throws std::bad_alloc where the host has no memory left for it. What products
/// make later, inside oneDNN, ends the program there.
void prepare_products();

}  // namespace tandem::exec::cpu
