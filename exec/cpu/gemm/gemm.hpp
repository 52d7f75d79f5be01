#pragma once
// The one door to matrix products: Eigen multiplies in fp64, oneDNN in fp32 and bf16 where the build has it, else Eigen in fp32.

#include <cstdint>

#include "models/base/narrow.hpp"

namespace tandem::exec::cpu {

/// A number of bf16 as it is stored.
struct Bf16 {
  std::uint16_t bits;

  operator float() const { return from_bf16(bits); }
};

/// A factor as it lies: row-major, `stride` elements from row to row, or the transpose of what lies so.
template <class T>
struct Factor {
  const T* data;
  std::int64_t stride;
  bool transposed = false;
};

/// c[m,n] = scale a[m,k] b[k,n], added to what is there if `add`. `c` overlaps no factor, whose elements are of type F.
template <class T, class F = T>
struct Product {
  std::int64_t m, n, k;
  Factor<F> a, b;
  T* c;
  std::int64_t c_stride;
  T scale = T{1};
  bool add = false;
};

/// On the calling thread alone. Equal products of equal numbers have equal bits, if all operands begin alike on a cache line.
void multiply(const Product<double>& product);
void multiply(const Product<float>& product);
/// Sums in fp32 what the processor multiplies in bf16. It takes factors below the least normal number, 1.2e-38, for 0. `scale` is 1.
void multiply(const Product<float, Bf16>& product);

/// Whether products of bf16 can be had: the build has oneDNN and the processor multiplies bf16.
bool multiplies_bf16();

/// Makes what products of this process share, once. Throws std::bad_alloc where the host has no memory left for it. What products
/// make later, inside oneDNN, ends the program there.
void prepare_products();

}  // namespace tandem::exec::cpu
