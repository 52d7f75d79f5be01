#include "sim/nccl/nccl.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "models/base/error.hpp"
#include "sim/nccl/nccl_rows.hpp"
#include "sim/nccl/rccl.hpp"

namespace tandem::sim {
namespace {

using namespace rows;

// Microseconds.
constexpr ByProtocol kRingBase{6.6, 14.0, 8.4}, kTreeBase{6.8, 14.0, 8.4};
constexpr ByProtocol kRingInside{0.6, 1.9, 3.4}, kTreeInside{0.6, 1.25, 4.0};
constexpr ByProtocol kRingPcie{1.0, 2.5, 5.7}, kTreePcie{1.0, 1.9, 4.0};
constexpr ByProtocol kRingAcross{2.7, 4.0, 14.0}, kTreeAcross{5.0, 8.5, 14.0};
constexpr double kNvlsInside = 25.0;

/// Factors on a Simple ring's latency between nodes in an all-reduce.
constexpr double kRingSimpleStretch = 1.4, kRingSimpleStretchVolta = 1.9;

// Rates relative to a Simple ring: LL moves a flag with every word, LL128 with every line, trees lose a little.
constexpr ByProtocol kRingRate{0.5, 0.92, 1.0};
constexpr double kTreeRate = 0.92, kTreeLlRate = 1 / 3.8, kTreeLl128Inside = 7.0 / 9, kTreeLl128Across = 120.0 / 128;

// PAT and reductions in switches, all in Simple.
constexpr double kPatBase = 8.0, kPatRank = 2.8, kPatRate = 0.75;
constexpr ByProtocol kPatAcross{0, 0, 14.0}, kDirectAcross{0, 0, 31.0}, kChainAcross{0, 0, 30.0};
constexpr ByProtocol kNvlsAcross{0, 0, 18.0}, kNvlsTreeAcross{0, 0, 20.9};
constexpr double kDirectInside = 3.7, kDirectPeer = 0.4, kChainInside = 2.8, kDirectRateSwitched = 0.85;

// Largest bytes/s on one node, on two, on more.
using ByNodes = std::array<double, 3>;

/// Largest bus bandwidth of LL, bytes/s: inside a node by generation, between nodes by the hosts' processor.
constexpr std::array<double, 4> kLlInside{39.0e9, 87.7e9, 141.0e9, 282.0e9};
constexpr ByNodes kLlAcross{0, 39.0e9, 20.4e9}, kLlAcrossAmd{0, 22.5e9, 19.0e9};

/// Largest bytes/s of a channel, by generation.
constexpr std::array<double, 4> kRingLl128Channel{20e9, 20e9, 36.7e9, 40e9};
constexpr std::array<ByNodes, 4> kTreeLl128Channel{
    {{20e9, 20e9, 20e9}, {20e9, 20e9, 20e9}, {36.7e9, 36.7e9, 29e9}, {55.6e9, 31.67e9, 20e9}}};
constexpr std::array<ByNodes, 4> kTreeChannel{
    {{26.5e9, 18.5e9, 10e9}, {24e9, 23.6e9, 17.8e9}, {38.7e9, 41.4e9, 36e9}, {70e9, 42.8e9, 24e9}}};
constexpr std::array<ByNodes, 4> kNvlsTreeChannel{
    {{26.5e9, 18.5e9, 10e9}, {24e9, 23.6e9, 17.8e9}, {0, 57.7e9, 45.5e9}, {0, 96e9, 80e9}}};

/// Factors on a tree's rate by size, in powers of two from 64 bytes.
constexpr std::array<std::array<double, 23>, kProtocols> kTreeBySize{{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
}};

constexpr std::int64_t kNvlsHeads = 32;  ///< devices of a node that reduce, at most (NCCL_MAX_NVLS_ARITY)

double by_nodes(const ByNodes& values, const NcclTask& t) {
  return values[static_cast<std::size_t>(std::min<std::int64_t>(t.nodes, 3) - 1)];
}
template <class T>
const T& of(const std::array<T, 4>& values, NcclArchitecture a) { return values[static_cast<std::size_t>(a)]; }

/// Microseconds of a step between nodes. A rank alone on its node waits as long as in a tree. Simple pays the network's latency
/// twice, because it flushes.
double step_across(const NcclTask& t, const ByProtocol& own, NcclProtocol p) {
  return at(t.ranks == t.nodes ? kTreeAcross : own, p) + (p == NcclProtocol::simple ? 2 : 1) * t.network_latency_s * 1e6;
}

double most_by_ll(const NcclTask& t, NcclArchitecture a) {
  return t.nodes == 1 ? of(kLlInside, a) : by_nodes(t.processor == HostProcessor::amd ? kLlAcrossAmd : kLlAcross, t);
}

/// Whether each channel and rank of a Simple ring has at least 64 bytes. NCCL opens every ring that it has found twice.
bool on_plateau(const NcclTask& t) { return t.bytes / (2 * t.graphs.channels * t.ranks) >= 64; }

Row ring(const NcclTask& t, const Bus& over, NcclProtocol p, NcclArchitecture a) {
  const bool all_reduce = t.kind == CollectiveKind::all_reduce;
  const double across = steps(t.kind, t.nodes);
  const double inside = std::max(at(t.pcie ? kRingPcie : kRingInside, p), posting(t, p));
  double us = at(kRingBase, p) + (steps(t.kind, t.ranks) - across) * inside + across * step_across(t, kRingAcross, p);
  if (p == NcclProtocol::simple && t.nodes > 1 && all_reduce && on_plateau(t))
    us *= a == NcclArchitecture::volta ? kRingSimpleStretchVolta : kRingSimpleStretch;
  double bus = over.ring * at(kRingRate, p);
  if (p == NcclProtocol::ll) bus = std::min(bus, most_by_ll(t, a));
  if (p == NcclProtocol::ll128) bus = std::min(bus, static_cast<double>(t.graphs.channels) * of(kRingLl128Channel, a));
  return {NcclAlgorithm::ring, p, bus * static_cast<double>(t.ranks) / steps(t.kind, t.ranks), us * 1e-6};
}

double tree_by_size(const NcclTask& t, NcclProtocol p) {
  const auto lines = static_cast<std::uint64_t>(t.bytes) >> 6;
  const auto& rates = kTreeBySize[static_cast<std::size_t>(p)];
  const auto power = static_cast<std::size_t>(std::bit_width(lines));
  return power == 0 || power > rates.size() ? 1 : rates[power - 1];
}

/// A tree all-reduce, up and down: a rank's links carry the whole vector each way.
Row tree(const NcclTask& t, const Bus& over, NcclProtocol p, NcclArchitecture a) {
  const double inside = std::max(0.0, per_node(t) - 1) * at(t.pcie ? kTreePcie : kTreeInside, p);
  const double us = at(kTreeBase, p) + 2 * (inside + levels(t) * step_across(t, kTreeAcross, p));
  const auto channels = static_cast<double>(t.graphs.channels);
  double bus = std::min(over.tree * kTreeRate, channels * by_nodes(of(kTreeChannel, a), t));
  if (p == NcclProtocol::ll) bus = std::min(bus * kTreeLlRate, most_by_ll(t, a));
  if (p == NcclProtocol::ll128)
    bus = std::min(bus * (t.nodes > 1 ? kTreeLl128Across : kTreeLl128Inside), channels * by_nodes(of(kTreeLl128Channel, a), t));
  return {NcclAlgorithm::tree, p, bus / 2, us * 1e-6};
}

/// A tree as NCCL plans it: a factor by size stands for the time to fill the stages.
Row planned_tree(const NcclTask& t, const Bus& over, NcclProtocol p, NcclArchitecture a) {
  Row row = tree(t, over, p, a);
  row.bytes_s *= tree_by_size(t, p);
  return row;
}

/// PAT (parallel aggregated trees): gathers and scatters of ranks that are alone on their nodes, with a tree for every rank.
Row pat(const NcclTask& t, const Bus& over) {
  constexpr auto p = NcclProtocol::simple;
  const double us = kPatBase + levels(t) * step_across(t, kPatAcross, p) / 3.5 + static_cast<double>(t.ranks) * kPatRank;
  return {NcclAlgorithm::pat, p, over.tree * kPatRate, us * 1e-6};
}

/// CollNet: the network's switches reduce. Every device sends its share up by a NIC of its own (direct), or a node's devices form
/// a chain.
Row collnet(const NcclTask& t, const Bus& over, NcclAlgorithm algorithm, NcclArchitecture a) {
  const bool direct = algorithm == NcclAlgorithm::collnet_direct;
  const double others = std::max(0.0, per_node(t) - 1);
  const double across = step_across(t, direct ? kDirectAcross : kChainAcross, NcclProtocol::simple);
  const double inside = direct ? std::min(1.0, others) * kDirectInside + others * kDirectPeer : others * kChainInside;
  double bus = over.collnet;
  if (direct) {
    const double share = per_node(t) / static_cast<double>(t.nics);
    bus /= share - (share - 1) / 2;
    if (a >= NcclArchitecture::hopper) bus *= kDirectRateSwitched;
  }
  return {algorithm, NcclProtocol::simple, bus / 2, (2 * inside + across) * 1e-6};
}

double nvls_efficiency(NcclArchitecture a) { return a == NcclArchitecture::hopper ? 0.85 : 0.74; }

double nvls_channels(const NcclTask& t, NcclArchitecture a) {
  if (a == NcclArchitecture::hopper) return 16;
  return t.nodes == 1 ? 24 : 32;
}

/// Bytes of a vector that one round reduces: a chunk for each channel and head. NCCL fits its size to the vector (src/enqueue.cc).
double round_bytes(const NcclTask& t, std::int64_t at_once) {
  std::int64_t chunk = t.nvls_chunk.value_or(t.nodes < 4 ? 131072 : 65536);
  const auto shrink = [&](std::int64_t rounds, std::int64_t to) {
    if (t.bytes < rounds * at_once * chunk) chunk = std::min(chunk, to);
  };
  if (t.nodes == 1) shrink(64, 65536), shrink(8, 32768), shrink(2, 16384);
  else shrink(32, 262144), shrink(16, 131072), shrink(4, 65536), shrink(1, 32768);
  return static_cast<double>(at_once * chunk);
}

/// Seconds that NCCL plans for a reduction in the nodes' switches (NVLS), at the rates of the devices that reduce (heads). Between
/// two nodes a tree uses both ways at once.
double planned_in_switch(const NcclTask& t, NcclAlgorithm algorithm, NcclArchitecture a) {
  const auto heads = static_cast<double>(t.graphs.heads);
  double bus = 2 * t.graphs.head_inside * heads * nvls_efficiency(a) * (heads - 1) / heads;
  double us = kNvlsInside;
  const bool both_ways = t.nodes == 2 && algorithm == NcclAlgorithm::nvls_tree;
  if (t.nodes > 1) bus = std::min(bus, heads * t.graphs.head_across * (both_ways ? 2 : 1));
  if (algorithm == NcclAlgorithm::nvls_tree) {
    bus = std::min(bus, heads * by_nodes(of(kNvlsTreeChannel, a), t));
    if (a == NcclArchitecture::blackwell && t.processor != HostProcessor::other) bus *= tree_by_size(t, NcclProtocol::simple);
    us += 2 * levels(t) * step_across(t, kNvlsTreeAcross, NcclProtocol::simple);
  } else if (t.nodes > 1) {
    us += step_across(t, kNvlsAcross, NcclProtocol::simple);
  }
  return bus_bytes(t) / bus + us * 1e-6;
}

/// The same reduction as it runs. Every device sends its vector up and its reduced share down, and receives as much: S (1 +
/// 1/heads) each way. Between nodes the vector goes once each way if there are two or the network reduces, else up and down a tree.
NcclChoice in_switch(const NcclTask& t, NcclAlgorithm algorithm, NcclArchitecture a) {
  const double heads = std::min<double>(per_node(t), kNvlsHeads), channels = nvls_channels(t, a);
  const double sent = steps(t.kind, t.ranks) / static_cast<double>(t.ranks);  // share of the vector that a rank of a ring sends
  const bool once = t.nodes == 2 || algorithm == NcclAlgorithm::nvls;
  const double levels_across = t.nodes == 1 ? 0 : algorithm == NcclAlgorithm::nvls ? 1 : levels(t);
  constexpr auto p = NcclProtocol::simple;
  const double hop = algorithm == NcclAlgorithm::nvls ? at(kNvlsAcross, p) / 2 : at(kNvlsTreeAcross, p);
  const double hops_s = (kNvlsInside + 2 * levels_across * (hop + t.network_latency_s * 1e6)) * 1e-6;

  const double inside_s = t.inside_s / sent * (1 + 1 / heads) / t.in_switch_share.value_or(nvls_efficiency(a));
  const double bytes_s = std::max(inside_s, t.across_s / (once ? 2 : 1));
  const double stages = 2 + 2 * levels_across;  // reduce, up and down every level, broadcast
  const double at_once = round_bytes(t, static_cast<std::int64_t>(channels * heads));
  const double round = t.bytes > 0 ? std::min(1.0, at_once / static_cast<double>(t.bytes)) : 0;
  const double rate = bytes_s > 0 ? t.ring_s() / bytes_s : 1;
  return {algorithm, NcclProtocol::simple, rate, hops_s + stages * round * bytes_s};
}

bool has_in_switch(const NcclTask& t, NcclArchitecture a) {
  const bool switches = a == NcclArchitecture::hopper || a == NcclArchitecture::blackwell;
  return t.kind == CollectiveKind::all_reduce && switches && t.switched && t.graphs.heads > 1 && t.ranks / t.nodes > 2;
}

/// Calls `offer` with each pair that NCCL may choose, and with the seconds that NCCL plans for it.
template <class Offer>
void each_choice(const NcclTask& task, NcclArchitecture architecture, Offer offer) {
  require(task.ranks > 1 && task.nodes > 0 && task.nodes <= task.ranks, "a collective has ranks on nodes");
  require(task.graphs.channels > 0 && task.nics > 0, "NCCL has a channel and, between nodes, a NIC");
  const auto offer_row = [&](const Row& planned, const Row& real, double more_s = 0) {
    offer(chosen(task, real, more_s), planned.latency_s + static_cast<double>(task.bytes) / planned.bytes_s);
  };
  NcclTask told = task;
  told.network_latency_s = task.reported_latency_s.value_or(task.network_latency_s);
  const Bus plan = planned_bus(task), real = real_bus(task);
  for (const NcclProtocol p : {NcclProtocol::ll, NcclProtocol::ll128, NcclProtocol::simple}) {
    if (task.only_simple && p != NcclProtocol::simple) continue;
    if (task.pcie && p == NcclProtocol::ll128) continue;
    offer_row(ring(told, plan, p, architecture), ring(task, real, p, architecture), task.last_copy_s);
    if (task.kind == CollectiveKind::all_reduce && !task.only_ring)
      offer_row(planned_tree(told, plan, p, architecture), tree(task, real, p, architecture), tree_fill(task, p));
  }
  if (task.only_ring) return;
  if (task.kind != CollectiveKind::all_reduce) {
    if (task.ranks == task.nodes) offer_row(pat(told, plan), pat(task, real));
    return;
  }
  if (!task.no_nvls && has_in_switch(task, architecture)) {
    const auto in_nodes = [&](NcclAlgorithm a) {
      offer(in_switch(task, a, architecture), planned_in_switch(told, a, architecture));
    };
    if (task.nodes == 1 || task.network_reduces) in_nodes(NcclAlgorithm::nvls);
    if (task.nodes > 1) in_nodes(NcclAlgorithm::nvls_tree);
  }
  if (task.network_reduces && task.nodes > 1)
    for (const NcclAlgorithm a : {NcclAlgorithm::collnet_direct, NcclAlgorithm::collnet_chain})
      if (task.switched || a == NcclAlgorithm::collnet_chain)
        offer_row(collnet(told, plan, a, architecture), collnet(task, real, a, architecture));
}

}  // namespace

std::optional<NcclArchitecture> nccl_architecture(std::string_view name) {
  if (name == "volta") return NcclArchitecture::volta;
  if (name == "ampere") return NcclArchitecture::ampere;
  if (name == "hopper") return NcclArchitecture::hopper;
  if (name == "blackwell") return NcclArchitecture::blackwell;
  if (name == "cdna2") return NcclArchitecture::cdna2;
  if (name == "cdna3") return NcclArchitecture::cdna3;
  return std::nullopt;
}

std::string_view name(NcclAlgorithm a) {
  constexpr std::string_view names[] = {"ring", "tree", "nvls", "nvls_tree", "pat", "collnet_direct", "collnet_chain"};
  return names[static_cast<std::size_t>(a)];
}

NcclChoice nccl_choice(const NcclTask& task, NcclArchitecture architecture) {
  if (is_rccl(architecture)) return rccl_choice(task, architecture);
  std::optional<NcclChoice> best;
  double least = 0;
  each_choice(task, architecture, [&](const NcclChoice& c, double planned_s) {
    if (!best || planned_s < least) best = c, least = planned_s;
  });
  return *best;
}

NcclChoice nccl_fastest(const NcclTask& task, NcclArchitecture architecture) {
  if (is_rccl(architecture)) return rccl_fastest(task, architecture);
  std::optional<NcclChoice> best;
  each_choice(task, architecture, [&](const NcclChoice& c, double) {
    if (!best || c.seconds(task) < best->seconds(task)) best = c;
  });
  return *best;
}

}  // namespace tandem::sim
