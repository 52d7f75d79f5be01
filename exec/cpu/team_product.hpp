#pragma once
// Matrix products that a rank's threads share.

#include "exec/cpu/gemm/gemm.hpp"
#include "exec/cpu/team/team.hpp"

namespace tandem::exec::cpu {

/// Multiplies in the pieces of cut_of(). Bits do not depend on the number of threads, but differ from the one-thread multiply().
void multiply(Team& team, const Product<double>& product);
void multiply(Team& team, const Product<float>& product);
void multiply(Team& team, const Product<float, Bf16>& product);

}  // namespace tandem::exec::cpu
