#pragma once
// Which algorithm and protocol NCCL picks, and what they cost beside the bytes: its own tuning model (NVIDIA/nccl,
// src/graph/tuning.cc, commit 5067397c of 2026-06-11), and what its kernels do that the model leaves out.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "models/ops/op.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// Of a device's generation, as far as the model differs by it.
enum class NcclArchitecture : std::uint8_t { volta, ampere, hopper, blackwell };
std::optional<NcclArchitecture> nccl_architecture(std::string_view name);

enum class NcclAlgorithm : std::uint8_t { ring, tree, nvls, nvls_tree, pat, collnet_direct, collnet_chain };
std::string_view name(NcclAlgorithm a);
enum class NcclProtocol : std::uint8_t { ll, ll128, simple };

/// What NCCL's search over a node's links finds (`nccl_search`): channels and the rates of each, bytes/s, by which it plans.
struct NcclGraphs {
  std::int64_t channels = 1;                 ///< of rings and trees
  double ring = 0;
  double tree_inside = 0, tree_across = 0;   ///< trees may go faster inside a node
  std::int64_t heads = 1;                    ///< devices of a node that reduce in its switch; 1: none does
  double head_inside = 0, head_across = 0;
};

/// What is to be carried, and how long its bytes would take in Simple by a ring through all ranks (each sends 2(n-1)/n of the
/// vector in an all-reduce, half of that in a gather or a scatter): at the rates of a device's links, if all of them were inside a
/// node, and at those of a node's NICs, where it leaves one.
struct NcclTask {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::int64_t ranks = 2, nodes = 1;  ///< of the group
  std::int64_t bytes = 0;             ///< of the whole vector
  double inside_s = 0, across_s = 0;
  NcclGraphs graphs;
  std::int64_t nics = 1;              ///< of a node that the group's ranks are next to
  bool switched = true;               ///< a node's devices are joined by switches
  bool network_reduces = false;       ///< the network's switches reduce (SHARP), and NCCL is told to let them
  HostProcessor processor = HostProcessor::other;  ///< of the hosts: it posts to the network and bounds LL between nodes
  double network_latency_s = 0;       ///< of a step between nodes, beside NCCL's own
  std::optional<double> reported_latency_s;  ///< what the network's plugin says of it, by which NCCL plans; nothing: the same
  bool only_simple = false;           ///< NCCL is told to use no other protocol
  bool only_ring = false;             ///< NCCL is told to use no other algorithm
  bool no_nvls = false;               ///< NCCL is told not to reduce in the switches of nodes
  std::int64_t buffer = 4 << 20;      ///< bytes of a connection in Simple
  std::optional<std::int64_t> nvls_chunk;    ///< bytes at most of reductions in switches; nothing: NCCL's own
  std::optional<double> in_switch_share;  ///< of a ring's rate on the links that in-switch reductions reach; nothing: as NCCL plans
  double last_copy_s = 0;             ///< of the last step of a ring, which copies what has arrived to its place and sends nothing

  double ring_s() const { return std::max(inside_s, across_s); }
};

/// NCCL's own time of a step between nodes in Simple, which presets of networks that report none have as their latency.
inline constexpr double kNcclStepAcross = 14e-6;

struct NcclChoice {
  NcclAlgorithm algorithm;
  NcclProtocol protocol;
  double rate;        ///< of the bytes, relative to a ring in Simple
  double latency_s;   ///< all of it: base, hops and the filling of the pipeline
  double seconds(const NcclTask& task) const { return task.ring_s() / rate + latency_s; }
};

/// The pair for which NCCL plans least, by the rates it counts on; ties go to the earlier one. Rings carry everything, PAT gathers
/// and scatters of one rank a node, the rest only all-reduces. What it takes is what was planned, but at the links' own rates, and
/// for three things. A ring's last step only copies. A tree hands on chunks: every stage up to its root and down again first waits
/// for one of every channel, for which NCCL's model has a rate for each size instead. And where a node's switch reduces, each
/// device's links carry the vector once each way and the share of it that the device has reduced, and stages wait for chunks, too.
NcclChoice nccl_choice(const NcclTask& task, NcclArchitecture architecture);

/// The pair that would take least, of those that NCCL may choose from: its model counts on rates that links may not reach and knows
/// nothing of stages that wait for chunks.
NcclChoice nccl_fastest(const NcclTask& task, NcclArchitecture architecture);

}  // namespace tandem::sim
