#pragma once
// Times flash attention by cuDNN.

#include <functional>
#include <string>
#include <vector>

#include "exec/cuda/measure/bench.hpp"
#include "reports/prediction/cost_table.hpp"

namespace tandem::exec::cuda {

/// The fact for the table: cuDNN's version, or the reason why it has no attention.
std::string attention_fact();

/// Times bf16 attention: head sizes 64 and 128, causal and full, forward and backward. `busy_s`: seconds of load for each.
/// `proceed` is called before each case; returning false ends the list.
std::vector<CostSample> time_attention(Bench& bench, double busy_s, const std::function<bool(double done)>& proceed);

}  // namespace tandem::exec::cuda
