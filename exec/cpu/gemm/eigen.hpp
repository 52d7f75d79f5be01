#pragma once
// Matrix products by Eigen, in fp64 and fp32.

#include "exec/cpu/gemm/gemm.hpp"

namespace tandem::exec::cpu {

void multiply_by_eigen(const Product<double>& product);
void multiply_by_eigen(const Product<float>& product);

}  // namespace tandem::exec::cpu
