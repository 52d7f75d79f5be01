#pragma once
// Initial values: functions of (seed, parameter, global index), so every layout starts from the same model.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "exec/state/param_layout.hpp"
#include "models/plan/plan.hpp"

namespace tandem::exec {

/// The whole parameter, row-major, as RunOptions::initialise may replace it.
std::vector<double> initial_values(const Param& param, const Plan& plan);

/// Writes weights (and master weights) of the ranks, those that each holds, and clears gradients, optimizer state,
/// loss and padding. `replace` may be empty; it sees each stage's parameters in order, tied copies too.
void initialise(std::span<const RankState> ranks, const Plan& plan,
                const std::function<void(const std::string&, std::vector<double>&)>& replace);

}  // namespace tandem::exec
