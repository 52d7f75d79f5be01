#pragma once
// What a plan changes in the facts of its cluster.

#include "models/plan/cluster_spec.hpp"
#include "topology/preset.hpp"

namespace tandem {

/// Replaces facts by the plan's overrides and fixes the number of devices of a node. Throws InfeasibleError if the node
/// cannot have that shape.
void apply_overrides(const ClusterSpec& cluster, ClusterFacts& facts);

}  // namespace tandem
