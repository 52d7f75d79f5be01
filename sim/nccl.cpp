#include "sim/nccl.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace tandem::sim {
namespace {

constexpr std::size_t kProtocols = 3;
using ByProtocol = std::array<double, kProtocols>;  ///< LL, LL128, Simple

// Microseconds.
constexpr ByProtocol kRingBase{6.6, 14.0, 8.4}, kTreeBase{6.8, 14.0, 8.4};
constexpr ByProtocol kRingInside{0.6, 1.9, 3.4}, kTreeInside{0.6, 1.25, 4.0};
constexpr ByProtocol kRingAcross{2.7, 4.0, 14.0}, kTreeAcross{5.0, 8.5, 14.0};
constexpr double kNvlsInside = 25.0, kNvlsTreeAcross = 20.9;

/// Of a Simple ring's latency between nodes in an all-reduce.
constexpr double kRingSimpleStretch = 1.4, kRingSimpleStretchVolta = 1.9;

// Rates relative to a ring in Simple: LL moves flags with every word, LL128 with every line, trees lose a little.
constexpr ByProtocol kRingRate{0.5, 0.92, 1.0};
constexpr ByProtocol kTreeRateInside{1 / 3.8, 0.92 * 7 / 9, 0.92}, kTreeRateAcross{1 / 3.8, 0.92 * 120 / 128, 0.92};

/// Bytes/s that LL reaches on a bus at most: inside a node by generation, on two nodes, on more (any processor but AMD's).
constexpr std::array<double, 4> kLlInside{39.0e9, 87.7e9, 141.0e9, 282.0e9};
constexpr double kLlTwoNodes = 39.0e9, kLlNodes = 20.4e9;

/// Rates of a tree's medium sizes, by powers of two from 64 bytes.
constexpr std::array<std::array<double, 23>, kProtocols> kTreeBySize{{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
}};

constexpr std::int64_t kNvlsHeads = 32;  ///< devices of a node that reduce, at most (NCCL_MAX_NVLS_ARITY)

double at(const ByProtocol& values, NcclProtocol p) { return values[static_cast<std::size_t>(p)]; }

double steps(CollectiveKind kind, std::int64_t ranks) {
  return static_cast<double>((kind == CollectiveKind::all_reduce || kind == CollectiveKind::broadcast ? 2 : 1) * (ranks - 1));
}

double levels(const NcclTask& t) { return std::log2(static_cast<double>(t.nodes)); }
/// Bytes that a rank of a ring sends.
double bus_bytes(const NcclTask& t) {
  return static_cast<double>(t.bytes) * steps(t.kind, t.ranks) / static_cast<double>(t.ranks);
}

/// `rate` of the task's ring, or less where LL would be above its highest.
double held_by_ll(const NcclTask& t, double rate, double bytes, NcclArchitecture a) {
  const double most = t.nodes == 1 ? kLlInside[static_cast<std::size_t>(a)] : t.nodes == 2 ? kLlTwoNodes : kLlNodes;
  return bytes > 0 ? std::min(rate, t.ring_s() * most / bytes) : rate;
}

NcclChoice ring(const NcclTask& t, NcclProtocol p, NcclArchitecture a) {
  const bool all_reduce = t.kind == CollectiveKind::all_reduce;
  const double across = static_cast<double>((all_reduce ? 2 : 1) * (t.nodes - 1));
  double us = at(kRingBase, p) + std::max(0.0, steps(t.kind, t.ranks) - across) * at(kRingInside, p) +
              across * (at(kRingAcross, p) + t.network_latency_s * 1e6);
  if (p == NcclProtocol::simple && t.nodes > 1 && all_reduce)
    us *= a == NcclArchitecture::volta ? kRingSimpleStretchVolta : kRingSimpleStretch;
  double rate = at(kRingRate, p);
  if (p == NcclProtocol::ll) rate = held_by_ll(t, rate, bus_bytes(t), a);
  return {NcclAlgorithm::ring, p, rate, us * 1e-6};
}

double tree_by_size(const NcclTask& t, NcclProtocol p) {
  const auto lines = static_cast<std::uint64_t>(t.bytes) >> 6;
  const auto& rates = kTreeBySize[static_cast<std::size_t>(p)];
  const auto power = static_cast<std::size_t>(std::bit_width(lines));
  return power == 0 || power > rates.size() ? 1 : rates[power - 1];
}

/// Up and down: a rank's links carry the whole vector each way, a ring's 2(n-1)/n of it.
NcclChoice tree(const NcclTask& t, NcclProtocol p, NcclArchitecture a) {
  const double per_node = static_cast<double>(t.ranks) / static_cast<double>(t.nodes);
  const double across = levels(t) * (at(kTreeAcross, p) + t.network_latency_s * 1e6);
  const double us = at(kTreeBase, p) + 2 * (std::max(0.0, per_node - 1) * at(kTreeInside, p) + across);
  double rate = at(t.nodes > 1 ? kTreeRateAcross : kTreeRateInside, p) * (1 - 1 / static_cast<double>(t.ranks));
  if (p == NcclProtocol::ll) rate = held_by_ll(t, rate, 2 * static_cast<double>(t.bytes), a);
  return {NcclAlgorithm::tree, p, rate * tree_by_size(t, p), us * 1e-6};
}

/// A reduction in the switch, as NCCL plans it and as it runs.
struct InSwitch {
  NcclChoice choice;
  double planned_s;
};

double nvls_efficiency(NcclArchitecture a) { return a == NcclArchitecture::hopper ? 0.85 : 0.74; }

double nvls_channels(const NcclTask& t, NcclArchitecture a) {
  if (a == NcclArchitecture::hopper) return 16;
  return t.nodes == 1 ? 24 : 32;
}

/// Bytes that one round takes of a vector: a chunk for every channel and head, whose size NCCL fits to the vector (src/enqueue.cc).
double round_bytes(const NcclTask& t, std::int64_t at_once) {
  std::int64_t chunk = t.nodes < 4 ? 131072 : 65536;
  const auto shrink = [&](std::int64_t rounds, std::int64_t to) {
    if (t.bytes < rounds * at_once * chunk) chunk = std::min(chunk, to);
  };
  if (t.nodes == 1) shrink(64, 65536), shrink(8, 32768), shrink(2, 16384);
  else shrink(4, 65536), shrink(1, 32768);
  return static_cast<double>(at_once * chunk);
}

/// Every device sends its vector up and what it has reduced down again, and receives as much: S (1 + 1/heads) each way, which
/// NCCL's plan has as half of what a ring carries. Between two nodes the vector goes each way once, between more up and down
/// a tree.
InSwitch in_switch(const NcclTask& t, NcclArchitecture a) {
  const double local = static_cast<double>(t.ranks) / static_cast<double>(t.nodes), heads = std::min<double>(local, kNvlsHeads);
  const double channels = nvls_channels(t, a), planned = nvls_efficiency(a);
  // Of the vector, what a ring carries: over all ranks, inside a node, between nodes.
  const double sent = steps(t.kind, t.ranks) / static_cast<double>(t.ranks), inside = 2 * (local - 1) / local;
  const double between = 2 * static_cast<double>(t.nodes - 1) / static_cast<double>(t.nodes);
  const double planned_inside = t.inside_s * sent / inside / (2 * planned * (channels - 1) / channels);
  const double across = t.nodes == 1 ? 0 : t.across_s * sent / between / (t.nodes == 2 ? 2 : 1);
  const double hops_s = (kNvlsInside + 2 * levels(t) * (kNvlsTreeAcross + t.network_latency_s * 1e6)) * 1e-6;

  const double bytes_s = std::max(t.inside_s * (1 + 1 / heads) / inside / t.in_switch_share.value_or(planned), across);
  const double stages = 2 + 2 * levels(t);  // reduce, up and down every level, broadcast
  const double at_once = round_bytes(t, static_cast<std::int64_t>(channels * heads));
  const double round = t.bytes > 0 ? std::min(1.0, at_once / static_cast<double>(t.bytes)) : 0;
  const double rate = bytes_s > 0 ? t.ring_s() / bytes_s : 1;
  const auto algorithm = t.nodes == 1 ? NcclAlgorithm::nvls : NcclAlgorithm::nvls_tree;
  return {{algorithm, NcclProtocol::simple, rate, hops_s + stages * round * bytes_s}, std::max(planned_inside, across) + hops_s};
}

bool has_in_switch(const NcclTask& t, NcclArchitecture a) {
  const bool switches = a == NcclArchitecture::hopper || a == NcclArchitecture::blackwell;
  return t.kind == CollectiveKind::all_reduce && switches && t.ranks / t.nodes > 2;
}

}  // namespace

std::optional<NcclArchitecture> nccl_architecture(std::string_view name) {
  if (name == "volta") return NcclArchitecture::volta;
  if (name == "ampere") return NcclArchitecture::ampere;
  if (name == "hopper") return NcclArchitecture::hopper;
  if (name == "blackwell") return NcclArchitecture::blackwell;
  return std::nullopt;
}

NcclChoice nccl_choice(const NcclTask& task, NcclArchitecture architecture) {
  std::optional<NcclChoice> best;
  double least = 0;
  const auto offer = [&](const NcclChoice& c, double planned_s) {
    if (!best || planned_s < least) best = c, least = planned_s;
  };
  for (const NcclProtocol p : {NcclProtocol::ll, NcclProtocol::ll128, NcclProtocol::simple}) {
    NcclChoice by_ring = ring(task, p, architecture);
    const double planned_s = by_ring.seconds(task);
    by_ring.latency_s += task.last_copy_s;
    offer(by_ring, planned_s);
    if (task.kind != CollectiveKind::all_reduce) continue;
    const NcclChoice by_tree = tree(task, p, architecture);
    offer(by_tree, by_tree.seconds(task));
  }
  if (has_in_switch(task, architecture)) {
    const InSwitch s = in_switch(task, architecture);
    offer(s.choice, s.planned_s);
  }
  return *best;
}

}  // namespace tandem::sim
