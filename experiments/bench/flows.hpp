#pragma once
// The flows that Tandem and other simulators all get.

#include <cstdint>
#include <vector>

namespace tandem::bench {

inline constexpr std::int64_t kRingBytes = std::int64_t{1} << 30;  ///< reduced over a ring, per rank
inline constexpr double kRingBandwidth = 25e9;                     ///< bytes/s, from a rank to the next

inline constexpr int kFlowHosts = 128;
inline constexpr double kFlowBandwidth = 100e9;  ///< bytes/s, into each host and out of it

/// A flow of `bytes` between two hosts through a crossbar, from `start` seconds on.
struct TimedFlow {
  int from, to;
  double bytes, start;
};

/// One flow per pair of hosts, with sizes and starts from a fixed seed. About half of the capacity is used.
std::vector<TimedFlow> desynchronised_flows();

}  // namespace tandem::bench
