#pragma once
// Times flash attention by cuDNN.

#include <functional>
#include <string>
#include <vector>

#include "exec/cuda/measure/bench.hpp"
#include "reports/prediction/cost_table.hpp"

namespace tandem::exec::cuda {

/// What can be said of it in a table: cuDNN's version, or why there is no attention in it.
std::string attention_fact();

/// bf16, head sizes 64 and 128, causal and whole, forward and backward. `busy_s`: load for each; `proceed` is asked before each
/// and ends the list with false.
std::vector<CostSample> time_attention(Bench& bench, double busy_s, const std::function<bool(double done)>& proceed);

}  // namespace tandem::exec::cuda
