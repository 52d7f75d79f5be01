#pragma once
// Operations as cuBLASLt products, and the list of products to measure.

#include <vector>

#include "exec/cuda/cublaslt.hpp"
#include "models/ops/op.hpp"
#include "reports/prediction/cost_table.hpp"

namespace tandem::exec::cuda {

/// The products that the operation consists of, in Megatron-LM's layout: attention rows are (position, sequence), heads are
/// adjacent. fp8 products read both operands along the inner dimension, as cuBLASLt requires on Hopper; Transformer Engine keeps
/// transposed copies. Empty for: other operations, grouped products, attention with fewer key heads, context-parallel shares, and
/// types other than fp32, tf32, bf16, fp16 and fp8.
std::vector<GemmShape> products_of(const Op& op, DType dtype);

/// Typical and awkward products of transformer layers, the most informative first. A time limit thus leaves a thinner sample of the
/// same sizes.
std::vector<CostSample> default_products();

}  // namespace tandem::exec::cuda
