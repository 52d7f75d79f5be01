#include "topology/overrides.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/base/error.hpp"
#include "models/base/quantity.hpp"
#include "topology/power_limit.hpp"

namespace tandem {
namespace {

[[noreturn]] void infeasible(const std::string& field, const std::string& value, const std::string& reason,
                             const std::string& remedy) {
  throw InfeasibleError(Problem{"", "cluster." + field, value, reason, remedy});
}

/// Keeps the first devices of a cube mesh with the links between them.
void keep_devices(NodeFacts& n, std::int64_t wanted) {
  n.matrix.resize(static_cast<std::size_t>(wanted));
  for (auto& row : n.matrix) row.resize(static_cast<std::size_t>(wanted));
  std::erase_if(n.ring, [&](std::int32_t d) { return d >= wanted; });
  if (!joined(n.matrix))
    infeasible("override.devices_per_node", std::to_string(wanted), "the first devices of the node have no way to each other",
               "use more of them");
}

/// Keeps the first `wanted` devices of a node and their part of its NICs, at least one.
void keep_part(std::int64_t wanted, NodeFacts& n) {
  if (n.nics > 0) n.nics = (n.nics * wanted + n.devices - 1) / n.devices;
  n.devices = wanted;
}

/// Keeps only the part of each node that a job over several nodes gets, if its devices divide the job's.
void keep_job_devices(const ClusterSpec& cluster, NodeFacts& n) {
  if (n.devices_across == 0 || cluster.override.devices_per_node || cluster.devices <= n.devices) return;
  if (cluster.devices % n.devices_across != 0) return;
  keep_part(n.devices_across, n);
}

/// Sets the number of devices of a node. Fewer than it has keep the links between them and their NICs; a torus cannot have fewer.
void set_devices(const ClusterSpec& cluster, NodeFacts& n) {
  keep_job_devices(cluster, n);
  const std::int64_t wanted = cluster.override.devices_per_node.value_or(n.devices > 0 ? n.devices : cluster.devices);
  if (wanted < 1) infeasible("override.devices_per_node", std::to_string(wanted), "a node needs a device", "use at least 1");
  const bool fixed = n.kind == ScaleUp::torus;
  if (n.devices > 0 && (fixed ? wanted != n.devices : wanted > n.devices))
    infeasible("override.devices_per_node", std::to_string(wanted),
               "a node of \"" + cluster.preset + "\" has " + std::to_string(n.devices) + " devices",
               "use " + std::string(fixed ? "" : "at most ") + std::to_string(n.devices));
  if (n.kind == ScaleUp::cube_mesh && wanted < n.devices) keep_devices(n, wanted);
  if (wanted < n.devices) keep_part(wanted, n);
  n.devices = wanted;
}

/// Share of one link in the bandwidth that leaves a chip of a torus, which has two links in every dimension.
double torus_share(const NodeFacts& n, Bandwidth link) {
  return link.bytes_per_second() / (4 * n.link.bytes_per_second() + 2 * n.z_link.bytes_per_second());
}

/// Sets the links' bandwidth so that a device's links have the bandwidth `device` together.
void set_scale_up(Bandwidth device, NodeFacts& n) {
  switch (n.kind) {
    case ScaleUp::crossbar:
    case ScaleUp::pcie:
    case ScaleUp::shared_memory: n.link = device; return;
    case ScaleUp::full_mesh: n.link = device * (1.0 / static_cast<double>(std::max<std::int64_t>(1, n.devices - 1))); return;
    case ScaleUp::torus: {
      const Bandwidth chip = device * static_cast<double>(n.cores_per_chip);
      const double z = torus_share(n, n.z_link);
      n.link = chip * torus_share(n, n.link);
      n.z_link = chip * z;
      return;
    }
    case ScaleUp::cube_mesh: n.link = device * (1.0 / std::accumulate(n.matrix.front().begin(), n.matrix.front().end(), 0)); return;
  }
}

/// Sets the NICs' bandwidth to `total` together. If a smaller whole number of the node's NICs has it, only these are kept and
/// shared. A note says so, because the plan does not say which was meant. Otherwise all NICs become slower or faster.
void set_scale_out(Bandwidth total, NodeFacts& n, std::vector<std::string>& unverified) {
  const double of_these = total.bytes_per_second() / n.nic.bytes_per_second();
  const auto fewer = static_cast<std::int64_t>(std::llround(of_these));
  if (fewer > 0 && fewer < n.nics && n.devices % fewer == 0 && std::abs(of_these - static_cast<double>(fewer)) < 1e-9) {
    unverified.push_back("cluster.override.scale_out_per_node (taken as " + std::to_string(fewer) + " of the node's " +
                         std::to_string(n.nics) + " NICs, not as " + std::to_string(n.nics) + " slower ones)");
    n.nics = fewer;
  } else {
    n.nic = total * (1.0 / static_cast<double>(n.nics));
  }
}

/// Adds a note if the NICs cannot be dealt to the devices: each then has a part of one, which no library does.
void note_uneven_nics(const NodeFacts& n, std::vector<std::string>& unverified) {
  if (n.nics < 1 || n.devices < 1 || n.nics % n.devices == 0 || n.devices % n.nics == 0) return;
  const std::string nics = std::to_string(n.nics), devices = std::to_string(n.devices);
  unverified.push_back("node.scale_out.nics (" + nics + " NICs do not divide among " + devices + " devices: each device is given " + nics + "/" +
                       devices + " of a NIC, also with rails)");
}

/// Another memory of the device. What the driver keeps to itself stays the same. Measured times stay if the device is a preset, whose
/// bandwidth tells costs what they were measured with.
void set_memory(const ClusterSpec& cluster, Device& d, std::vector<std::string>& unverified) {
  if (const auto& wanted = cluster.override.memory_bytes) {
    const Bytes kept = d.memory - d.usable_memory;
    if (*wanted - kept < kLeastMemory)
      infeasible("override.memory_bytes", text_of(*wanted), "the driver of " + d.name + " keeps " + text_of(kept), "give more");
    d.memory = *wanted, d.usable_memory = *wanted - kept;
  }
  const auto& rate = cluster.override.memory_bytes_per_s;
  if (!rate || *rate == d.memory_bandwidth) return;
  d.memory_bandwidth = *rate;
  if (d.measured.empty() && d.cost_table.empty()) return;
  const bool known = find_device_preset(d.preset).has_value();
  if (!known) d.measured.clear(), d.cost_table.clear();
  unverified.push_back("cluster.override.memory_bytes_per_s (" +
                       (known ? "times measured on " + d.name + " change as those of its roofline do"
                              : "no time measured on " + d.name + " is used, as its own memory is in it") + ")");
}

/// Another link between a device and its host. What the preset says of it is then no longer used, nor told.
void set_host_link(Bandwidth rate, NodeFacts& n, std::vector<std::string>& unverified) {
  n.host_link = rate;
  std::erase_if(unverified, [](const std::string& fact) { return fact.find("scale_out.host_link_bytes_per_s") != fact.npos; });
}

}  // namespace

/// Whether there is a way from the first device to every other.
bool joined(const LinkMatrix& links) {
  std::vector<std::size_t> reached{0};
  std::vector<bool> seen(links.size());
  seen[0] = true;
  for (std::size_t i = 0; i < reached.size(); ++i)
    for (std::size_t b = 0; b < links.size(); ++b)
      if (links[reached[i]][b] > 0 && !seen[b]) seen[b] = true, reached.push_back(b);
  return reached.size() == links.size();
}

void apply_overrides(const ClusterSpec& cluster, ClusterFacts& facts) {
  NodeFacts& n = facts.node;
  set_devices(cluster, n);
  if (cluster.override.scale_up_per_device) set_scale_up(*cluster.override.scale_up_per_device, n);
  if (cluster.override.scale_out_per_node && n.nics > 0) set_scale_out(*cluster.override.scale_out_per_node, n, facts.unverified);
  note_uneven_nics(n, facts.unverified);
  set_memory(cluster, facts.device, facts.unverified);
  if (cluster.override.power_limit_watts) set_power_limit(*cluster.override.power_limit_watts, facts.device);
  if (cluster.override.host_link_bytes_per_s) set_host_link(*cluster.override.host_link_bytes_per_s, n, facts.unverified);
  facts.device.host_link = n.host_link;
  if (cluster.override.oversubscription) facts.fabric.oversubscription = *cluster.override.oversubscription;
  n.nccl.only_ring = cluster.override.nccl_algo == "ring";
  n.nccl.no_nvls = cluster.override.nccl_algo == "^nvls";
}

}  // namespace tandem
