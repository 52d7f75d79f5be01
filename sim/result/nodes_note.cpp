#include "sim/result/nodes_note.hpp"

#include "topology/overrides.hpp"

namespace tandem::sim {

std::string nodes_note(const ClusterSpec& cluster) {
  if (cluster.override.devices_per_node) return "";
  ClusterFacts facts = load_cluster(cluster.preset);
  const std::int64_t built = facts.node.devices;
  if (facts.node.devices_across == 0 || cluster.devices <= built) return "";
  apply_overrides(cluster, facts);
  const std::int64_t used = facts.node.devices;
  if (used == built) return "";
  const std::string part = "a part of each node: " + std::to_string(cluster.devices / used) + " nodes with " + std::to_string(used) +
                           " of their " + std::to_string(built) + " devices; ";
  if (cluster.devices % built != 0) return part + "cluster.override.devices_per_node sets another number";
  return part + "also " + std::to_string(cluster.devices / built) + " full nodes: cluster.override.devices_per_node " + std::to_string(built);
}

}  // namespace tandem::sim
