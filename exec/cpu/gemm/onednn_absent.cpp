// Products of a build without oneDNN.
#include "exec/cpu/gemm/eigen.hpp"

namespace tandem::exec::cpu {

void multiply(const Product<float>& product) { multiply_by_eigen(product); }

void prepare_products() {}

}  // namespace tandem::exec::cpu
