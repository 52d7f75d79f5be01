#pragma once
// A note on jobs that use a part of each node.

#include <string>

#include "models/plan/plan.hpp"

namespace tandem::sim {

/// "a part of each node: 36 nodes with 64 of their 72 devices; ...", if the cluster's rule for jobs over several nodes says so
/// (`devices_across_nodes`), and not the plan. It says whether the job could fill whole nodes instead. Empty otherwise. Throws
/// ConfigError like load_cluster.
std::string nodes_note(const ClusterSpec& cluster);

}  // namespace tandem::sim
