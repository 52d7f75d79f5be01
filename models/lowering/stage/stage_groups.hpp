#pragma once
// The groups and neighbours that a stage's ranks communicate with, for estimates without a task graph.

#include <vector>

#include "models/plan/mesh.hpp"
#include "models/plan/plan.hpp"

namespace tandem::lowering {

struct StageGroups {
  std::vector<Group> collectives;  ///< groups of more than one rank
  std::vector<int> neighbours;     ///< offsets of the stages that it sends to
};

/// Whether experts have their own groups: ranks of a data group hold different experts, or parts of their matrices.
bool experts_apart(const Plan& plan);

/// By stage. Only for a model with one stack of layers.
std::vector<StageGroups> stage_groups(const Plan& plan, bool tied);

}  // namespace tandem::lowering
