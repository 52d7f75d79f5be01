// Products of a build without oneDNN.
#include "exec/cpu/gemm/eigen.hpp"
#include "models/base/error.hpp"

namespace tandem::exec::cpu {

void multiply(const Product<float>& product) { multiply_by_eigen(product); }

bool multiplies_bf16() { return false; }
void multiply(const NarrowProduct&) { throw ContractError("this build has no products of bf16"); }

}  // namespace tandem::exec::cpu
