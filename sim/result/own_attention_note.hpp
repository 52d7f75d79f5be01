#pragma once
// A note on attention that no library's kernel computes.

#include <string>

#include "models/plan/plan.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// Names Tandem's own attention kernel, why it runs, its FLOP rate, and how long the plan's products take without it. Empty if the graph
/// does not have it.
std::string own_attention_note(const Plan& plan, const Setup& setup);

}  // namespace tandem::sim
