#pragma once
// Initial values. They depend only on seed, parameter and global index, so every layout starts from the same model.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "exec/state/param_layout.hpp"
#include "models/plan/plan.hpp"

namespace tandem::exec {

/// Initial values of a whole parameter, row-major.
std::vector<double> initial_values(const Param& param, const Plan& plan);

/// Writes each rank's share of the initial weights and master weights. Sets gradients, optimizer states, loss and padding to zero.
/// `replace` may be empty; it can change each parameter's values, stage by stage in order, including tied copies.
void initialise(std::span<const RankState> ranks, const Plan& plan,
                const std::function<void(const std::string&, std::vector<double>&)>& replace);

/// Sets weights, gradients, optimizer states, loss and padding to zero, for weights that come from elsewhere.
void clear_states(std::span<const RankState> ranks);

}  // namespace tandem::exec
