#pragma once
// The routing of a run: which experts its tokens chose, read from the run's timeline.

#include <string>

#include "models/graph/routed_plan.hpp"
#include "reports/timeline/timeline.hpp"

namespace tandem {

/// Reads the routing from an executed timeline with one lane for each rank of `mesh`.
Routing routing_of(const Timeline& timeline, const Mesh& mesh);

/// The routing of the executed run whose timeline is the file `path`, for the ranks of `plan`. The run's plan must have the same
/// model, sequences and batch and, except for the pipeline, the same ranks. Throws ConfigError naming every field that differs, and
/// when the plan's rows do not depend on routing or the file holds none.
Routing read_routing(const std::string& path, const Plan& plan);

}  // namespace tandem
