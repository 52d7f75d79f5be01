// Matrix products in a build without oneDNN.
#include "exec/cpu/gemm/eigen.hpp"
#include "models/base/error.hpp"

namespace tandem::exec::cpu {

void multiply(const Product<float>& product) { multiply_by_eigen(product); }

void multiply(const Product<float, Bf16>&) { throw ContractError("this build multiplies no bf16"); }

bool multiplies_bf16() { return false; }

void prepare_products() {}

}  // namespace tandem::exec::cpu
