#include "sim/nccl/rccl.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "models/base/error.hpp"
#include "sim/nccl/nccl_rows.hpp"

namespace tandem::sim {
namespace {

using namespace rows;

constexpr std::size_t kSizes = 27;
using BySize = std::array<std::array<double, kSizes>, kProtocols>;  ///< factors on a rate by size, in powers of two from 64 bytes

/// Microseconds of a step inside a node and between nodes, share of the bus on at most two nodes and on more, factors by size.
struct Tuning {
  ByProtocol inside, across, few, many;
  BySize by_size;
};
/// A model of `rcclTuningModel`. A protocol with share 0 is off.
struct Model {
  Tuning ring, tree;
};

constexpr ByProtocol kBase{12.0, 12.0, 17.0};
/// Share of a link's bytes that are the vector's: LL has a flag for every word, LL128 for every 15.
constexpr ByProtocol kUseful{0.5, 15.0 / 16, 1};

/// `tuning_model_0`: MI250X on one node.
constexpr Model kOneNodeCdna2{
    {{0.8, 2.2, 3.6}, {9.5, 19.8, 15.1}, {0.04, 0, 1}, {0.04, 0, 1}, {}},
    {{0.8, 1.4, 2.5}, {11.8, 18.2, 20.8}, {0.04, 0, 0.91}, {0.04, 0, 0.95},
     {{{.1, .2, .1, .1, .9, .3, .4, .1, .2, .4, .2, .1, .3, .3, .2, .2, .2, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1},
       {},
       {.2, 1, .1, .1, .7, .2, .4, .1, .1, .3, .4, .3, .6, .8, 1, 1, 1, 1, .9, .8, .8, .8, .8, .8, .9, .9, .9}}}}};

/// `tuning_model_3`: MI250X with four NICs, as on Frontier and LUMI.
constexpr Model kCdna2{
    {{0.8, 0, 3.6}, {9.5, 0, 19.8}, {0.20, 0, 1}, {0.20, 0, 1},
     {{{.1, .1, .1, .1, .1, .3, .1, .2, .1, .4, .4, .2, .2, .3, .7, .5, .4, .3, .3, .3, .3, .2, .2, .2, .2, .2, .2},
       {},
       {.1, .1, .1, .1, .1, .1, .1, .5, 1, .1, .3, .1, .1, .1, .2, .2, .2, .3, .4, .7, 1, 1, 1, 1, 1, 1, 1}}}},
    {{0.8, 0, 2.5}, {12.5, 0, 22.4}, {0.20, 0, 1.75}, {0.20, 0, 0.96},
     {{{.1, .1, .1, .1, .1, .1, 1, 1, .2, 1, .9, 1, .6, .4, .6, .4, .3, .3, .3, .3, .3, .2, .2, .2, .2, .2, .2},
       {},
       {1, 1, 1, 1, 1, 1, .1, .1, .1, .2, 1, .8, 1, 1, 1, 1, 1, 1, 1, 1, 1, .8, .7, .8, .9, .7, .7}}}}};

/// `tuning_model_5`: MI300X and later.
constexpr Model kCdna3{
    {{0.8, 0.8, 2.1}, {9.5, 9.5, 320.0}, {0.08, 0.08, 1}, {0.08, 0.08, 1},
     {{{.1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, 1, .2, 1, .4, .4, .1, .2, .2, .1, .1, .1, .1, .1, .1, .1, .1},
       {.1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, 1, .2, 1, .4, .4, .1, .2, .2, .1, .1, .1, .1, .1, .1, .1, .1},
       {.1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .7, .2, 1, 1, 1}}}},
    {{0.9, 0.9, 2.3}, {10.5, 10.5, 25.0}, {0.06, 0.06, 0.11}, {0.06, 0.06, 0.59},
     {{{.1, .1, .1, .1, .1, .1, 1, 1, 1, 1, 1, .6, 1, .9, 1, 1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1},
       {.1, .1, .1, .1, .1, .1, 1, 1, 1, 1, 1, .6, 1, .9, 1, 1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1},
       {.1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .7, 1, 1, 1, 1, 1, .7, .7, .5, .6, .6, .6}}}}};

/// Between nodes of MI300X and later: largest bytes in LL, and those in LL128, which comes first. They count a rank's part, or an
/// all-reduce's vector. An all-reduce of more than two nodes keeps LL128 for 3.8 times as long.
struct Limits {
  double ll, ll128_above, ll128;
};
constexpr Limits kReduceLimits{524288, 524288, 4415057}, kGatherLimits{98304, 98304, 5046272};
constexpr Limits kScatterLimits{655360, 131072, 3211264};
constexpr double kManyNodes = 3.8;
constexpr double kScatterOnNode = 352128;  ///< largest bytes of a reduce-scatter's part that is in LL on one node

const Model& model(const NcclTask& t, NcclArchitecture a) {
  if (a != NcclArchitecture::cdna2) return kCdna3;
  return t.nodes == 1 ? kOneNodeCdna2 : kCdna2;
}

double by_size(const NcclTask& t, const Tuning& of, NcclProtocol p) {
  const auto power = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(t.bytes) >> 6));
  return of.by_size[static_cast<std::size_t>(p)][power == 0 ? 0 : std::min(power, kSizes) - 1];
}

/// Microseconds of a step between nodes as RCCL plans it.
double planned_across(const NcclTask& t, const Model& m, const Tuning& own, NcclProtocol p) {
  const double network_s = t.reported_latency_s.value_or(t.network_latency_s);
  return at(t.ranks == t.nodes ? m.tree.across : own.across, p) + (p == NcclProtocol::simple ? 2 : 1) * network_s * 1e6;
}

double real_across(const NcclTask& t, const Model& m, const Tuning& own, NcclProtocol p) {
  if (p == NcclProtocol::simple) return (kNcclStepAcross + 2 * t.network_latency_s) * 1e6;
  return at(t.ranks == t.nodes ? m.tree.across : own.across, p) + t.network_latency_s * 1e6;
}

double ring_us(const NcclTask& t, const Tuning& ring, NcclProtocol p, double posted, double across) {
  const double nodes = steps(t.kind, t.nodes);
  return at(kBase, p) + (steps(t.kind, t.ranks) - nodes) * std::max(at(ring.inside, p), posted) + nodes * across;
}

double tree_us(const NcclTask& t, const Tuning& tree, NcclProtocol p, double across) {
  return at(kBase, p) + 2 * (std::max(0.0, per_node(t) - 1) * at(tree.inside, p) + levels(t) * across);
}

/// A pair with the seconds that RCCL plans for it.
struct Candidate {
  NcclChoice choice;
  double planned_s;
};

double share(const NcclTask& t, const Tuning& of, NcclProtocol p) { return at(t.nodes <= 2 ? of.few : of.many, p); }

Candidate ring(const NcclTask& t, const Model& m, NcclProtocol p) {
  const double bytes = static_cast<double>(t.bytes), ranks = static_cast<double>(t.ranks);
  const double of_bus = ranks / steps(t.kind, t.ranks), sized = t.nodes > 1 ? by_size(t, m.ring, p) : 1;
  const double planned = planned_bus(t).ring * share(t, m.ring, p) * of_bus * sized;
  const double planned_us = ring_us(t, m.ring, p, posting(t, p), planned_across(t, m, m.ring, p));
  const Row real{NcclAlgorithm::ring, p, real_bus(t).ring * at(kUseful, p) * of_bus,
                 ring_us(t, m.ring, p, 0, real_across(t, m, m.ring, p)) * 1e-6};
  return {chosen(t, real, t.last_copy_s), planned_us * 1e-6 + bytes / planned};
}

Candidate tree(const NcclTask& t, const Model& m, NcclProtocol p) {
  const double bytes = static_cast<double>(t.bytes);
  const double planned = planned_bus(t).tree * share(t, m.tree, p) / 2 * by_size(t, m.tree, p);
  const double planned_us = tree_us(t, m.tree, p, planned_across(t, m, m.tree, p));
  const Row real{NcclAlgorithm::tree, p, real_bus(t).tree * at(kUseful, p) / 2,
                 tree_us(t, m.tree, p, real_across(t, m, m.tree, p)) * 1e-6};
  return {chosen(t, real, tree_fill(t, p)), planned_us * 1e-6 + bytes / planned};
}

std::vector<Candidate> candidates(const NcclTask& t, NcclArchitecture a) {
  require(is_rccl(a), "RCCL runs on AMD's devices");
  require(t.ranks > 1 && t.nodes > 0 && t.nodes <= t.ranks, "a collective has ranks on nodes");
  require(t.graphs.channels > 0, "RCCL has a channel");
  const Model& m = model(t, a);
  std::vector<Candidate> out;
  for (const NcclProtocol p : {NcclProtocol::ll, NcclProtocol::ll128, NcclProtocol::simple}) {
    if (share(t, m.ring, p) == 0 || (t.only_simple && p != NcclProtocol::simple)) continue;
    out.push_back(ring(t, m, p));
    // On one node of MI300X or later trees in Simple are off.
    const bool off = t.nodes == 1 && a != NcclArchitecture::cdna2 && p == NcclProtocol::simple;
    if (t.kind == CollectiveKind::all_reduce && !t.only_ring && !off) out.push_back(tree(t, m, p));
  }
  return out;
}

/// The protocol that the vector's size demands (rcclUpdateCollectiveProtocol); nothing: the table's.
std::optional<NcclProtocol> demanded(const NcclTask& t, NcclArchitecture a) {
  if (a == NcclArchitecture::cdna2 || t.only_simple) return std::nullopt;
  const bool reduces = t.kind == CollectiveKind::all_reduce, scatters = t.kind == CollectiveKind::reduce_scatter;
  const double bytes = static_cast<double>(t.bytes) / (reduces ? 1.0 : static_cast<double>(t.ranks));
  if (t.nodes == 1) return scatters && bytes <= kScatterOnNode ? std::optional(NcclProtocol::ll) : std::nullopt;
  const Limits& limits = reduces ? kReduceLimits : scatters ? kScatterLimits : kGatherLimits;
  const double ll128 = limits.ll128 * (reduces && t.nodes > 2 ? kManyNodes : 1);
  if (bytes > limits.ll128_above && bytes <= ll128) return NcclProtocol::ll128;
  return bytes > 0 && bytes <= limits.ll ? NcclProtocol::ll : NcclProtocol::simple;
}

}  // namespace

bool is_rccl(NcclArchitecture a) { return a == NcclArchitecture::cdna2 || a == NcclArchitecture::cdna3; }

NcclChoice rccl_choice(const NcclTask& task, NcclArchitecture architecture) {
  const std::vector<Candidate> all = candidates(task, architecture);
  const auto sooner = [](const Candidate& x, const Candidate& y) { return x.planned_s < y.planned_s; };
  const NcclChoice best = std::min_element(all.begin(), all.end(), sooner)->choice;
  const auto protocol = demanded(task, architecture);
  for (const Candidate& c : all)
    if (protocol && c.choice.algorithm == best.algorithm && c.choice.protocol == *protocol) return c.choice;
  return best;
}

NcclChoice rccl_fastest(const NcclTask& task, NcclArchitecture architecture) {
  const std::vector<Candidate> all = candidates(task, architecture);
  const auto faster = [&](const Candidate& x, const Candidate& y) { return x.choice.seconds(task) < y.choice.seconds(task); };
  return std::min_element(all.begin(), all.end(), faster)->choice;
}

NcclGraphs rccl_graphs(const NcclNode& node, NcclArchitecture architecture) {
  constexpr double kCounted = 0.75;  // 48 of 64 GB/s of an xGMI link (src/graph/topo.h); 36 of 50 of MI250X's
  constexpr std::int64_t kRings = 4;  // of a link to a peer (`rome_model_79`: 28 of 8)
  // Half of the channels between nodes, and MI250X's most: 2 x CHANNEL_LIMIT (src/graph/connect.cc).
  const std::int64_t most = architecture == NcclArchitecture::cdna2 ? 16 : 32;
  NcclGraphs g;
  g.channels = node.nics > 0 ? most : std::clamp<std::int64_t>(kRings * (node.ranks - 1), 1, most);
  // A device without peers on its node counts its link to the NIC.
  const double bus = node.links > 0 ? node.links * kCounted : node.nic;
  g.ring = g.tree_inside = g.tree_across = bus / static_cast<double>(g.channels);
  return g;
}

}  // namespace tandem::sim
