#pragma once
// Operations as cuBLASLt products, and the list of products that is measured.

#include <vector>

#include "exec/cuda/cublaslt.hpp"
#include "models/ops/op.hpp"
#include "reports/prediction/cost_table.hpp"

namespace tandem::exec::cuda {

/// The products that the operation is, in the layout of Megatron-LM: rows of attention operands are (position, sequence), heads
/// beside each other. fp8 products read both operands along the summed dimension, as cuBLASLt wants them on Hopper, whatever
/// the operation's own layout is (Transformer Engine keeps transposed copies). Empty where cuBLASLt has no such product: other
/// operations, grouped products, attention with fewer key heads, context-parallel shares, types other than fp32, tf32, bf16, fp16 and fp8.
std::vector<GemmShape> products_of(const Op& op, DType dtype);

/// Products that transformer layers are made of, and awkward ones, the most telling first: what a time limit cuts off is a
/// thinner sample of the same sizes.
std::vector<CostSample> default_products();

}  // namespace tandem::exec::cuda
