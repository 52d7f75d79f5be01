#pragma once
// What NCCL's and RCCL's tuning models share: the bytes, steps and buses of a collective, and how long a tree takes to fill.

#include <array>

#include "sim/nccl/nccl.hpp"

namespace tandem::sim::rows {

inline constexpr std::size_t kProtocols = 3;
using ByProtocol = std::array<double, kProtocols>;  ///< LL, LL128, Simple

inline double at(const ByProtocol& values, NcclProtocol p) { return values[static_cast<std::size_t>(p)]; }

/// Steps of a ring over `ranks`.
double steps(CollectiveKind kind, std::int64_t ranks);
/// Levels of a tree of the nodes.
double levels(const NcclTask& t);
/// Bytes that a rank of a ring sends.
double bus_bytes(const NcclTask& t);
double per_node(const NcclTask& t);
/// Microseconds of posting to the network in each step of a ring that leaves its node.
double posting(const NcclTask& t, NcclProtocol p);

/// Bus bandwidths, bytes/s. A tree between two nodes carries the vector once each way, so its links inside nodes may run at twice
/// the rate of its NICs. So may all if the network reduces.
struct Bus {
  double ring, tree, collnet;
};
Bus planned_bus(const NcclTask& t);
Bus real_bus(const NcclTask& t);

/// An algorithm and protocol with the vector's bytes/s (NCCL's algBw) and its latency.
struct Row {
  NcclAlgorithm algorithm;
  NcclProtocol protocol;
  double bytes_s;
  double latency_s;
};

/// The row's choice at the task's own rates, `more_s` later.
NcclChoice chosen(const NcclTask& t, const Row& real, double more_s);

/// Seconds until a tree's stages are filled. Each stage, along the chains of two nodes and the levels between, up and down, waits
/// for one chunk of every channel. The slowest is left out: its time is that of the bytes.
double tree_fill(const NcclTask& t, NcclProtocol p);

}  // namespace tandem::sim::rows
