#pragma once
// With whom a stage's ranks communicate: for estimates without a task graph.

#include <vector>

#include "models/plan/mesh.hpp"
#include "models/plan/plan.hpp"

namespace tandem::lowering {

struct StageGroups {
  std::vector<Group> collectives;  ///< each of more than one rank
  std::vector<int> neighbours;     ///< that it sends to, in stages
};

/// Whether experts have groups of their own: ranks of a data group hold other experts, or other parts of their matrices.
bool experts_apart(const Plan& plan);

/// By stage, of a model that is one stack of layers.
std::vector<StageGroups> stage_groups(const Plan& plan, bool tied);

}  // namespace tandem::lowering
