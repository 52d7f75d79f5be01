#include "sim/result/nodes_note.hpp"

#include "topology/preset.hpp"

namespace tandem::sim {

std::string nodes_note(const ClusterSpec& cluster) {
  if (cluster.override.devices_per_node) return "";
  ClusterFacts facts = load_cluster(cluster.preset);
  const std::int64_t built = facts.node.devices;
  if (facts.node.devices_across == 0 || cluster.devices <= built) return "";
  apply_overrides(cluster, facts);
  const std::int64_t used = facts.node.devices;
  if (used == built) return "";
  return std::string(kPartOfNodes) + std::to_string(cluster.devices / used) + " nodes with " + std::to_string(used) + " of their " +
         std::to_string(built) + " devices; cluster.override.devices_per_node sets another number";
}

}  // namespace tandem::sim
