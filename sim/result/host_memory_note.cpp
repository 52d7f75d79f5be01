#include "sim/result/host_memory_note.hpp"

#include <algorithm>
#include <vector>

#include "models/base/text.hpp"
#include "models/graph/host_activations.hpp"
#include "models/graph/host_arena.hpp"
#include "reports/prediction/text.hpp"
#include "topology/preset.hpp"

namespace tandem::sim {
namespace {

/// Bytes in the host's memory of one rank of each stage.
std::vector<std::int64_t> bytes_of_stages(const TaskGraph& graph) {
  std::vector<std::int64_t> out;
  for (const Program& p : graph.programs)
    out.push_back(HostActivations(graph, p).bytes().count() + HostArena(graph, p).bytes().count());
  return out;
}

}  // namespace

HostMemoryUse host_memory_use(const Setup& setup, const ClusterSpec& cluster) {
  const Topology& topology = setup.topology;
  if (topology.device().synchronous) return {};
  const std::vector<std::int64_t> of_stage = bytes_of_stages(setup.graph);
  HostMemoryUse out;
  out.of_rank = std::ranges::max(of_stage);
  if (out.of_rank == 0) return out;
  const std::optional<Host> host = find_host(cluster.preset);
  const std::int64_t used = topology.devices_per_node();  // a job may use a part of a node
  const std::int64_t devices = host && host->devices > 0 ? std::min(host->devices, used) : used;
  const std::int64_t world = setup.mesh.world_size(), ranks = std::min(devices * topology.ranks_per_device(), world);
  out.ranks = ranks, out.has = host ? host->memory.count() : 0;
  for (std::int64_t first = 0; first < world; first += ranks) {
    std::int64_t sum = 0;
    for (std::int64_t r = first; r < std::min(first + ranks, world); ++r)
      sum += of_stage[static_cast<std::size_t>(setup.stage_of(Rank(static_cast<std::int32_t>(r))).value())];
    out.needed = std::max(out.needed, sum);
  }
  return out;
}

std::string host_memory_note(const HostMemoryUse& use) {
  if (use.of_rank == 0) return {};
  const std::string ranks = count_text(use.ranks) + (use.ranks == 1 ? " rank" : " ranks");
  std::string out = "offloaded tensors take at most " + bytes_text(use.of_rank) + " of the host's memory for each rank, ";
  if (use.has == 0) return out + bytes_text(use.needed) + " for " + ranks + ": the cluster's file does not say how much a host has (host_memory_bytes)";
  out += bytes_text(use.needed) + " of " + bytes_text(use.has) + " for " + ranks;
  return use.fits() ? out : std::string(kHostFull) + out;
}

std::string lacking_memory(const Prediction& prediction, const Device& device) {
  const bool host = std::ranges::any_of(prediction.notes, [](const std::string& note) { return note.starts_with(kHostFull); });
  const bool on_device = prediction.roles[neediest_role(prediction)].needed_bytes <= prediction.device_memory;
  return host && on_device ? "the memory of its hosts" : "the memory of " + device.name;
}

}  // namespace tandem::sim
