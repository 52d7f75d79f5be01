#pragma once
// Products whose pieces the threads of a rank share.

#include "exec/cpu/gemm/gemm.hpp"
#include "exec/cpu/team/team.hpp"

namespace tandem::exec::cpu {

/// multiply(), piece by piece as cut_of() says: the same bits whatever the number of threads, and others than those of multiply().
void multiply(Team& team, const Product<double>& product);
void multiply(Team& team, const Product<float>& product);
void multiply(Team& team, const Product<float, Bf16>& product);

}  // namespace tandem::exec::cpu
