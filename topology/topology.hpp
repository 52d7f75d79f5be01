#pragma once
// The cluster that a plan runs on: devices, links, switches and NICs as a graph with routes. Boost.Graph stays in route.cpp.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/base/ids.hpp"
#include "models/ops/collective.hpp"
#include "models/plan/plan.hpp"
#include "topology/device.hpp"

namespace tandem {

/// One directed link. Latency is per traversal.
struct Link {
  Bandwidth bandwidth;
  Duration latency;
};

/// A whole cluster. Links are numbered from 0; none of them needs to be stored. Immutable.
class Topology {
 public:
  virtual ~Topology() = default;
  virtual const Device& device() const = 0;         ///< all devices are alike
  virtual double speed(DeviceId) const { return 1; } ///< share of `device()`'s speed at which this one computes
  virtual ScaleUp scale_up() const = 0;
  virtual std::int64_t devices() const = 0;
  virtual std::int64_t devices_per_node() const = 0;
  virtual std::int64_t ranks_per_device() const = 0;
  /// Number of processors that a device stands for; a rank computes with as many threads. 1 if devices are no processors.
  virtual std::int64_t threads_per_rank() const { return 1; }
  virtual DeviceId device_of(Rank r) const = 0;     ///< placement: ranks fill devices in order
  std::int64_t node_of(DeviceId d) const { return d.value() / devices_per_node(); }
  virtual std::int32_t link_count() const = 0;
  virtual Link link(std::int32_t id) const = 0;
  virtual std::string link_name(std::int32_t id) const = 0;
  /// Bandwidth that a link was built with, before any perturbation.
  virtual Bandwidth built(std::int32_t link) const { return this->link(link).bandwidth; }
  /// Links crossed from one device to another, in order; empty for a device to itself. Deterministic. NICs: a device uses
  /// the NIC(s) attached to it.
  virtual std::vector<std::int32_t> route(DeviceId from, DeviceId to) const = 0;
  /// Number of devices (whole nodes) after which routes repeat. If both ends of a route shift by it, each link's id grows by its
  /// `stride`, and the new link has equal facts. 0: routes do not repeat.
  virtual std::int64_t period() const { return 0; }
  virtual std::int32_t stride(std::int32_t /*link*/) const { return 0; }
  /// Local devices of a node in the order a ring visits them, so that neighbours are joined by a link.
  virtual const std::vector<std::int32_t>& ring_order() const = 0;
  /// Bandwidth of one cable of a cube mesh, whose links are bundles of cables; 0 elsewhere.
  virtual Bandwidth cable() const { return {}; }
  /// How many devices of a node share one NIC; 1 if each has its own or none is needed.
  virtual std::int64_t devices_per_nic() const { return 1; }
  virtual HostProcessor host_processor() const { return HostProcessor::other; }
  /// Whether the network's switches reduce (SHARP) and the library is set to use that.
  virtual bool network_reduces() const { return false; }
  /// Measured share of a NIC's rate that the library reaches over this network; it replaces the share of the device's calibration.
  virtual std::optional<double> network_share() const { return std::nullopt; }
  /// Share of the links' rate inside a node that the library was measured to reach.
  virtual std::optional<double> link_share() const { return std::nullopt; }
  virtual NcclSettings nccl_settings() const { return {}; }
  /// Consecutive devices that are one chip of a torus; 0 elsewhere.
  virtual std::int64_t cores_per_chip() const { return 0; }
  /// The algorithm that the plan sets for collectives of a kind; nothing: the library chooses.
  virtual std::optional<Algorithm> algorithm(CollectiveKind) const { return std::nullopt; }
  /// Facts of the presets in use that no source confirms, one phrase each.
  virtual const std::vector<std::string>& unverified() const = 0;
};

/// Builds the topology of a plan's cluster: preset by name or path to a JSON file, with the plan's overrides applied.
/// `cost_table`, when not empty, replaces the device's measured cost table. Throws ConfigError (unknown preset, bad file) or
/// InfeasibleError (more devices than the preset can hold).
std::shared_ptr<const Topology> make_topology(const ClusterSpec& cluster, const std::string& cost_table = {});

/// A copy of `topology` whose device has another calibration (a name or a path); it shares links and facts.
std::shared_ptr<const Topology> recalibrated(std::shared_ptr<const Topology> topology, const std::string& calibration);

/// `machine` with the slow and lost parts of a perturbation; it must outlive the result. Traffic around a lost link goes as the
/// library would send it: through other devices of its nodes and their NICs (NCCL's PXN), or over other links of a cube mesh.
/// Throws ConfigError naming every rank, device and link that the machine does not have. `route` of the result throws
/// InfeasibleError if no way is left.
std::unique_ptr<const Topology> perturbed(const Topology& machine, const Perturbation& perturbation);

/// The nodes of a group's members and the order in which a ring visits them, for models/ops/collective.
GroupShape shape_of(const Topology& topology, const std::vector<Rank>& members);

}  // namespace tandem
