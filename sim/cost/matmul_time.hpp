#pragma once
// Time of one (batched) matrix product from its shape.

#include <cstdint>

#include "sim/cost/calibration.hpp"

namespace tandem::sim {

/// `batch` products of [m,k] by [k,n].
struct Gemm {
  std::int64_t batch, m, n, k;
  bool trans_a = false;  ///< the first operand is stored as [k, m]
  double flops() const {
    return 2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

/// The hardware and type that a product runs on.
struct MatMulEngine {
  double peak;             ///< FLOP/s in the compute type
  double vector_rate;      ///< FLOP/s when the matrix engine cannot be used
  double memory_rate;      ///< bytes/s of memory that are reached
  std::int64_t units;      ///< compute units that share the peak
  int element_bits;
  bool matrix_engine;      ///< the compute type has a matrix engine
  double matrix_rate = 0;  ///< FLOP/s of 16-bit types, for which MatMulFit::fill_k is fitted; 0: as `peak`
  bool blocks = false;     ///< operands have one scale a block (fp8_block)
};

/// Seconds of arithmetic, without the operands' memory traffic and fixed costs.
double matmul_seconds(const Gemm& g, const MatMulFit& fit, const MatMulEngine& engine);

}  // namespace tandem::sim
