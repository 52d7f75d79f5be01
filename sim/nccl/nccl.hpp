#pragma once
// Which algorithm and protocol NCCL picks, and their rates and latencies: NCCL's own tuning model (NVIDIA/nccl,
// src/graph/tuning.cc, commit 5067397c of 2026-06-11), and effects of its kernels that the model leaves out.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "models/ops/op.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// The GPU generations that NCCL's tuning model distinguishes, and RCCL's (`rccl`): MI200, MI300 and later.
enum class NcclArchitecture : std::uint8_t { volta, ampere, hopper, blackwell, cdna2, cdna3 };
std::optional<NcclArchitecture> nccl_architecture(std::string_view name);

enum class NcclAlgorithm : std::uint8_t { ring, tree, nvls, nvls_tree, pat, collnet_direct, collnet_chain };
std::string_view name(NcclAlgorithm a);
enum class NcclProtocol : std::uint8_t { ll, ll128, simple };

/// Result of NCCL's search over a node's links (`nccl_search`): the number of channels, and the bytes/s that NCCL plans for each.
struct NcclGraphs {
  std::int64_t channels = 1;                 ///< number of rings, and of trees
  double ring = 0;
  double tree_inside = 0, tree_across = 0;   ///< trees may be faster inside a node
  std::int64_t heads = 1;                    ///< devices of a node that reduce in its switch (NVLS); 1: none does
  double head_inside = 0, head_across = 0;
};

/// A collective. `inside_s` and `across_s` are seconds of its bytes in a Simple ring through all ranks. `inside_s` counts the rates
/// of a device's links, as if all ranks were on one node; `across_s` those of a node's NICs, if the group leaves it. Each rank
/// sends 2(n-1)/n of the vector in an all-reduce, half of that in a gather or a scatter.
struct NcclTask {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::int64_t ranks = 2, nodes = 1;  ///< ranks of the group, and nodes that they are on
  std::int64_t bytes = 0;             ///< bytes of the whole vector
  double inside_s = 0, across_s = 0;
  NcclGraphs graphs;
  std::int64_t nics = 1;              ///< NICs of a node that are next to the group's ranks
  bool switched = true;               ///< a node's devices are joined by switches
  bool pcie = false;                  ///< a node's devices are joined over PCIe, on which NCCL does not use LL128
  bool network_reduces = false;       ///< the network's switches reduce (SHARP), and NCCL is set to use that
  HostProcessor processor = HostProcessor::other;  ///< the hosts': it posts to the network and bounds LL between nodes
  double network_latency_s = 0;       ///< latency of a step between nodes, beside NCCL's own
  std::optional<double> reported_latency_s;  ///< the latency that the network's plugin reports to NCCL; nothing: the same
  bool only_simple = false;           ///< NCCL is set to use no other protocol
  bool only_ring = false;             ///< NCCL is set to use no other algorithm
  bool no_nvls = false;               ///< NCCL is set not to reduce in the switches of nodes
  std::int64_t buffer = 4 << 20;      ///< bytes of a connection's buffer in Simple
  std::optional<std::int64_t> nvls_chunk;    ///< most bytes of a chunk reduced in switches; nothing: NCCL's default
  std::optional<double> in_switch_share;  ///< share of a ring's rate that in-switch reductions reach; nothing: as NCCL plans
  double last_copy_s = 0;             ///< seconds of a ring's last step, which only copies what has arrived to its place

  double ring_s() const { return std::max(inside_s, across_s); }
};

/// Seconds of a Simple step between nodes in NCCL's model. Presets of networks that report no latency have it as theirs.
inline constexpr double kNcclStepAcross = 14e-6;

struct NcclChoice {
  NcclAlgorithm algorithm;
  NcclProtocol protocol;
  double rate;        ///< rate of the bytes relative to a ring in Simple
  double latency_s;   ///< base, hops and the filling of the pipeline
  double seconds(const NcclTask& task) const { return task.ring_s() / rate + latency_s; }
};

/// Returns the pair with NCCL's least planned time; ties go to the earlier one. Rings carry everything, PAT gathers and scatters of
/// one rank a node, the others only all-reduces. The returned time is at the links' real rates and differs from the plan in three
/// ways. A ring's last step only copies. Each stage of a tree, up to the root and down again, first waits for a chunk of every
/// channel; NCCL's model has a factor by size instead. If a node's switch reduces, each device's links carry, each way, the vector
/// and the share that the device reduces; these stages wait for chunks, too.
NcclChoice nccl_choice(const NcclTask& task, NcclArchitecture architecture);

/// Returns the fastest pair among those that NCCL may choose. NCCL may choose another: its model assumes rates that links may not
/// reach, and ignores that stages wait for chunks.
NcclChoice nccl_fastest(const NcclTask& task, NcclArchitecture architecture);

}  // namespace tandem::sim
