#include "sim/nccl.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace tandem::sim {
namespace {

constexpr std::size_t kProtocols = 3;
using ByProtocol = std::array<double, kProtocols>;  ///< LL, LL128, Simple

// Microseconds.
constexpr ByProtocol kRingBase{6.6, 14.0, 8.4}, kTreeBase{6.8, 14.0, 8.4};
constexpr ByProtocol kRingInside{0.6, 1.9, 3.4}, kTreeInside{0.6, 1.25, 4.0};
constexpr ByProtocol kRingAcross{2.7, 4.0, 14.0}, kTreeAcross{5.0, 8.5, 14.0};
constexpr double kNvlsInside = 25.0, kNvlsAcross = 18.0, kNvlsTreeAcross = 20.9;
constexpr double kNvlsChannels = 16;  ///< one of them only reduces

/// Of a Simple ring's latency between nodes in an all-reduce.
constexpr double kRingSimpleStretch = 1.4, kRingSimpleStretchVolta = 1.9;

// Rates relative to a ring in Simple: LL moves flags with every word, LL128 with every line, trees lose a little.
constexpr ByProtocol kRingRate{0.5, 0.92, 1.0};
constexpr ByProtocol kTreeRateInside{1 / 3.8, 0.92 * 7 / 9, 0.92}, kTreeRateAcross{1 / 3.8, 0.92 * 120 / 128, 0.92};

double at(const ByProtocol& values, NcclProtocol p) { return values[static_cast<std::size_t>(p)]; }

double steps(CollectiveKind kind, std::int64_t ranks) {
  return static_cast<double>((kind == CollectiveKind::all_reduce || kind == CollectiveKind::broadcast ? 2 : 1) * (ranks - 1));
}

NcclChoice ring(const NcclTask& t, NcclProtocol p, NcclArchitecture a) {
  const bool all_reduce = t.kind == CollectiveKind::all_reduce;
  const double across = static_cast<double>((all_reduce ? 2 : 1) * (t.nodes - 1));
  double us = at(kRingBase, p) + std::max(0.0, steps(t.kind, t.ranks) - across) * at(kRingInside, p) + across * (at(kRingAcross, p) + t.network_latency_s * 1e6);
  if (p == NcclProtocol::simple && t.nodes > 1 && all_reduce)
    us *= a == NcclArchitecture::volta ? kRingSimpleStretchVolta : kRingSimpleStretch;
  return {NcclAlgorithm::ring, p, at(kRingRate, p), us * 1e-6};
}

NcclChoice tree(const NcclTask& t, NcclProtocol p) {
  const double per_node = static_cast<double>(t.ranks) / static_cast<double>(t.nodes);
  const double levels = std::log2(static_cast<double>(t.nodes));
  const double us = at(kTreeBase, p) + 2 * (std::max(0.0, per_node - 1) * at(kTreeInside, p) + levels * (at(kTreeAcross, p) + t.network_latency_s * 1e6));
  return {NcclAlgorithm::tree, p, at(t.nodes > 1 ? kTreeRateAcross : kTreeRateInside, p), us * 1e-6};
}

/// The switch adds: a rank's bytes cross its link once each way instead of 2(n-1)/n times.
NcclChoice in_switch(const NcclTask& t, NcclArchitecture a) {
  const double efficiency = (a == NcclArchitecture::hopper ? 0.85 : 0.74) * (kNvlsChannels - 1) / kNvlsChannels;
  const double once = 2 * static_cast<double>(t.ranks - 1) / static_cast<double>(t.ranks);
  if (t.nodes == 1) return {NcclAlgorithm::nvls, NcclProtocol::simple, once * efficiency, kNvlsInside * 1e-6};
  const double levels = std::log2(static_cast<double>(t.nodes));
  return {NcclAlgorithm::nvls_tree, NcclProtocol::simple, 1.0, (kNvlsInside + 2 * levels * (kNvlsTreeAcross + t.network_latency_s * 1e6)) * 1e-6};
}

bool has_in_switch(const NcclTask& t, NcclArchitecture a) {
  return (a == NcclArchitecture::hopper || a == NcclArchitecture::blackwell) && t.ranks / t.nodes > 2;
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
  const auto offer = [&](const NcclChoice& c) {
    if (!best || c.seconds(task) < best->seconds(task)) best = c;
  };
  for (const NcclProtocol p : {NcclProtocol::ll, NcclProtocol::ll128, NcclProtocol::simple}) {
    offer(ring(task, p, architecture));
    if (task.kind == CollectiveKind::all_reduce) offer(tree(task, p));
  }
  if (task.kind == CollectiveKind::all_reduce && has_in_switch(task, architecture)) offer(in_switch(task, architecture));
  return *best;
}

}  // namespace tandem::sim
