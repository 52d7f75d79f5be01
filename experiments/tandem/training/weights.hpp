#pragma once
// The weights that `train --weights` begins with.

#include <memory>
#include <string>

#include "exec/state/saved_state.hpp"
#include "models/graph/task_graph.hpp"

namespace tandem::program {

/// Opens the files at `path` as the plan's weights and logs what they are; nullptr if `path` is empty. The type is that of the
/// config.json beside them, else the first one that says the plan's model. Throws ConfigError or InfeasibleError.
std::unique_ptr<exec::SavedState> open_weights(const std::string& path, const Plan& plan, const TaskGraph& graph);

}  // namespace tandem::program
