#pragma once
// Initial values: functions of (seed, parameter, global index), so every layout starts from the same model.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/plan.hpp"
#include "models/task_graph.hpp"

namespace tandem::exec {

/// Every arena of one stage by tensor rank: one a data rank.
struct StageReplicas {
  const Program* program;
  std::vector<std::vector<std::byte*>> by_tensor_rank;
};

/// The whole parameter, row-major, as RunOptions::initialise may replace it.
std::vector<double> initial_values(const Param& param, const Plan& plan);

/// Writes weights (and master weights) of every rank and clears gradients, optimizer state and loss. `replace` may be
/// empty; it sees each stage's parameters in order, tied copies too.
void initialise(std::span<const StageReplicas> stages, const Plan& plan,
                const std::function<void(const std::string&, std::vector<double>&)>& replace);

}  // namespace tandem::exec
