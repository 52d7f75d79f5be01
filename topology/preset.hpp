#pragma once
// Cluster presets as read from files: facts with their sources, before anything is derived.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "models/ops/collective.hpp"
#include "models/plan/plan.hpp"
#include "topology/device.hpp"

namespace tandem {

/// A node: its devices, the links between them, its NICs.
struct NodeFacts {
  ScaleUp kind = ScaleUp::crossbar;
  std::int64_t devices = 0;                ///< 0: the number in the plan
  std::int64_t devices_across = 0;         ///< devices of each node that a job over several nodes gets; 0: all
  std::int64_t devices_per_host = 0;       ///< devices of one host, for launchers; 0: all of the node
  Bandwidth link;                          ///< crossbar, shared memory, PCIe: of a device; full mesh: of a pair; torus, cube: of one link
  Duration hop;                            ///< latency from device to device
  std::optional<double> link_share;        ///< measured share of the links' rate that the library reaches inside this node
  std::array<std::int64_t, 3> shape{1, 1, 1};  ///< torus: chips in x, y and z
  Bandwidth z_link;                        ///< torus of three dimensions: one link in z; `link` is in x and y
  std::int64_t cores_per_chip = 1;         ///< devices that are one chip; in a torus they share its ports
  Bandwidth core_port;                     ///< between a core and its chip; 0: no limit (torus), the switch alone joins a chip's cores (crossbar)
  std::vector<std::vector<int>> matrix;    ///< cube mesh: number of links between two devices
  std::vector<std::int32_t> ring;          ///< cube mesh: order of a ring
  std::int64_t nics = 0;                   ///< NICs of the node; 0: nodes cannot be joined
  Bandwidth nic;
  Duration nic_latency;                    ///< from NIC to NIC under one switch, software included
  NcclSettings nccl;                       ///< settings of the network's plugin
  Bandwidth host_link;                     ///< device to host, and to NIC but in a full mesh, whose devices have ports; 0: no limit
  HostProcessor host_processor = HostProcessor::other;
  bool rails = false;                      ///< NICs of equal position share leaf switches

  using ChipPlace = std::array<std::int64_t, 3>;  ///< x, y, z
  std::int64_t chip(const ChipPlace& at) const { return at[0] + shape[0] * (at[1] + shape[1] * at[2]); }
  ChipPlace place(std::int64_t chip) const { return {chip % shape[0], chip / shape[0] % shape[1], chip / (shape[0] * shape[1])}; }
};

/// The network between the nodes.
struct FabricFacts {
  std::int64_t nodes_per_leaf = 1;
  double oversubscription = 1;             ///< bandwidth into a leaf over bandwidth out of it
  Duration switch_latency;                 ///< latency of each further switch on the way
  std::int64_t max_nodes = 0;              ///< 0: no limit
  std::optional<double> share;             ///< measured share of a NIC's rate that the library reaches over this network
  bool reduces = false;                    ///< its switches reduce, and NCCL is set to use that (SHARP, NCCL_COLLNET_ENABLE)
};

struct ClusterFacts {
  Device device;
  NodeFacts node;
  FabricFacts fabric;
  Bytes host_memory;                       ///< of one host (see NodeFacts::devices_per_host); 0: not published
  std::vector<std::string> unverified;
};

/// One host of a cluster: its memory, and the devices that share it.
struct Host {
  Bytes memory;
  std::int64_t devices = 0;                ///< 0: those of the plan
};
/// What a cluster's preset or file says of its hosts; nothing if it does not say their memory. Throws ConfigError.
std::optional<Host> find_host(const std::string& preset);

/// The device preset of this name; nothing if there is none. Throws ConfigError on a broken file.
std::optional<Device> find_device_preset(const std::string& name);
/// The file of a cluster: a preset's, or `preset` itself if it is a path. Throws ConfigError with the field cluster.preset
/// if it cannot be read.
std::string cluster_file(const std::string& preset);
/// Reads a cluster preset by name, or a file when `preset` contains '/' or ends in ".json". Throws ConfigError.
ClusterFacts load_cluster(const std::string& preset);

}  // namespace tandem
