#pragma once
// What a plan's cluster.override makes of the facts of a preset.

#include "topology/preset.hpp"

namespace tandem {

/// Links between every two devices of a node.
using LinkMatrix = std::vector<std::vector<int>>;

inline constexpr Bytes kLeastMemory{1'000'000};  ///< a device with less has a missing unit

/// Replaces facts by the plan's overrides and fixes the number of devices of a node. Throws InfeasibleError if the node
/// cannot have that shape.
void apply_overrides(const ClusterSpec& cluster, ClusterFacts& facts);

/// Whether there is a way from the first device to every other.
bool joined(const LinkMatrix& links);

}  // namespace tandem
