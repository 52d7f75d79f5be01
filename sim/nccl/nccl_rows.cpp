#include "sim/nccl/nccl_rows.hpp"

#include <algorithm>
#include <bit>

#include "models/ops/collective_bytes.hpp"

namespace tandem::sim::rows {
namespace {

/// Bytes of a tree's chunk: an eighth of the protocol's buffer without its flags (src/init.cc, src/enqueue.cc).
constexpr std::int64_t kLlChunk = 32768, kLl128Chunk = 576000, kSteps = 8;
/// Bytes on a link for a byte of the vector: LL has a flag for every word, LL128 for every 15.
constexpr ByProtocol kOnLink{2, 16.0 / 15, 1};

/// Bytes of a chunk of a channel's part of the vector. LL128 fits them to the part (calcCollChunking in src/enqueue.cc).
std::int64_t tree_chunk(const NcclTask& t, NcclProtocol p) {
  if (p == NcclProtocol::ll) return kLlChunk;
  if (p == NcclProtocol::simple) return t.buffer / kSteps;
  std::int64_t chunk = kLl128Chunk;
  const std::int64_t part = t.bytes / (2 * t.graphs.channels);
  const double stages = 1 + levels(t) + 0.1 * per_node(t);
  const auto shrink = [&](double chunks, std::int64_t least) {
    while (static_cast<double>(part / chunk) < stages * chunks / per_node(t) && chunk > least) chunk /= 2;
  };
  shrink(64, 131072), shrink(16, 32768);
  return chunk;
}

}  // namespace

double steps(CollectiveKind kind, std::int64_t ranks) { return static_cast<double>(ring_steps(kind, ranks)); }

double levels(const NcclTask& t) { return static_cast<double>(std::bit_width(static_cast<std::uint64_t>(t.nodes)) - 1); }

double bus_bytes(const NcclTask& t) { return wire_bytes(t.kind, Bytes(t.bytes), t.ranks); }

double per_node(const NcclTask& t) { return static_cast<double>(t.ranks) / static_cast<double>(t.nodes); }

double posting(const NcclTask& t, NcclProtocol p) {
  if (t.nodes == 1) return 0;
  return (t.processor == HostProcessor::amd ? 2.0 : 1.0) * (p == NcclProtocol::simple ? 3 : 1);
}

Bus planned_bus(const NcclTask& t) {
  const NcclGraphs& g = t.graphs;
  const auto channels = static_cast<double>(g.channels);
  return {channels * g.ring, channels * (t.nodes <= 2 ? g.tree_inside : g.tree_across), channels * g.tree_inside};
}

Bus real_bus(const NcclTask& t) {
  if (t.ring_s() == 0) return planned_bus(t);
  const double once = bus_bytes(t) / std::max(t.inside_s, t.across_s / 2);
  return {bus_bytes(t) / t.ring_s(), t.nodes <= 2 ? once : bus_bytes(t) / t.ring_s(), once};
}

NcclChoice chosen(const NcclTask& t, const Row& real, double more_s) {
  const auto bytes = static_cast<double>(t.bytes);
  return {real.algorithm, real.protocol, bytes > 0 ? t.ring_s() * real.bytes_s / bytes : 1, real.latency_s + more_s};
}

double tree_fill(const NcclTask& t, NcclProtocol p) {
  if (t.bytes == 0) return 0;
  const auto bytes = static_cast<double>(t.bytes);
  const double round = std::min(1.0, static_cast<double>(2 * t.graphs.channels * tree_chunk(t, p)) / bytes);
  const double of_bus = round * at(kOnLink, p) * bytes / bus_bytes(t);
  const double inside = t.inside_s * of_bus, across = t.across_s * of_bus;
  return 2 * (std::max(0.0, per_node(t) - 1) * inside + levels(t) * across) - std::max(inside, across);
}

}  // namespace tandem::sim::rows
