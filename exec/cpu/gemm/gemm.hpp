#pragma once
// The interface of matrix products. Eigen multiplies fp64, oneDNN fp32 and bf16; without oneDNN Eigen multiplies fp32.

#include <cstdint>

#include "models/base/narrow.hpp"

namespace tandem::exec::cpu {

/// A bf16 number as stored.
struct Bf16 {
  std::uint16_t bits;

  operator float() const { return from_bf16(bits); }
};

/// A stored factor: row-major, `stride` elements between rows; if `transposed`, the product uses its transpose.
template <class T>
struct Factor {
  const T* data;
  std::int64_t stride;
  bool transposed = false;
};

/// c[m,n] = scale a[m,k] b[k,n], plus the old c if `add`. `c` must not overlap a factor. Factors have type F.
template <class T, class F = T>
struct Product {
  std::int64_t m, n, k;
  Factor<F> a, b;
  T* c;
  std::int64_t c_stride;
  T scale = T{1};
  bool add = false;
};

/// Runs on the calling thread only. Equal products of equal values have equal bits, if operands are equally aligned to cache lines.
void multiply(const Product<double>& product);
void multiply(const Product<float>& product);
/// Multiplies bf16 and sums in fp32. Factors below the smallest normal number, 1.2e-38, count as 0. `scale` must be 1.
void multiply(const Product<float, Bf16>& product);

/// True if the build has oneDNN and the processor multiplies bf16.
bool multiplies_bf16();

/// Creates, once, what all products of this process share. Throws std::bad_alloc if host memory runs out. Later allocations inside
/// oneDNN would end the program instead.
void prepare_products();

}  // namespace tandem::exec::cpu
