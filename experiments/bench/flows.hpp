#pragma once
// The flows that this simulator and others are given alike.

#include <cstdint>
#include <vector>

namespace tandem::bench {

inline constexpr std::int64_t kRingBytes = std::int64_t{1} << 30;  ///< of every rank, reduced over a ring
inline constexpr double kRingBandwidth = 25e9;                     ///< bytes/s, from a rank to the next

inline constexpr int kFlowHosts = 128;
inline constexpr double kFlowBandwidth = 100e9;  ///< bytes/s, into a host and out of it

/// `bytes` from one host to another through a crossbar, from `start` seconds on.
struct TimedFlow {
  int from, to;
  double bytes, start;
};

/// One flow for each pair of hosts, sizes and starts drawn from a fixed seed; about half of the capacity is in use.
std::vector<TimedFlow> desynchronised_flows();

}  // namespace tandem::bench
