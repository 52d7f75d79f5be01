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

/// For weights that come from elsewhere: writes the initial values of adapters, which have none there. Sets other weights, gradients,
/// optimizer states, loss and padding to zero.
void initialise_adapters(std::span<const RankState> ranks, const Plan& plan);

}  // namespace tandem::exec
