#pragma once
// The weights that `train --weights` begins with.

#include <memory>
#include <string>

#include "exec/state/saved_state.hpp"
#include "models/graph/task_graph.hpp"

namespace tandem::program {

/// What a training begins with: files of weights, and a folder of adapters beside them (empty: none).
struct Beginning {
  std::string weights, adapter;
  std::string told = "the training begins with";  ///< for messages
};

/// Opens the files as the plan's weights and logs what they are; nullptr if there are none. The type is that of the config.json beside
/// them, else the first one that says the plan's model. Throws ConfigError or InfeasibleError.
std::unique_ptr<exec::SavedState> open_weights(const Beginning& from, const Plan& plan, const TaskGraph& graph);

}  // namespace tandem::program
