#pragma once
// Clusters for tests.

#include <algorithm>
#include <limits>
#include <string>

#include "topology/topology.hpp"

inline tandem::ClusterSpec cluster(const std::string& preset, std::int64_t devices) {
  tandem::ClusterSpec spec;
  spec.preset = preset;
  spec.devices = devices;
  return spec;
}

/// Bytes per second of the narrowest link between two devices.
inline double narrowest(const tandem::Topology& t, std::int32_t from, std::int32_t to) {
  double least = std::numeric_limits<double>::infinity();
  for (std::int32_t l : t.route(tandem::DeviceId(from), tandem::DeviceId(to)))
    least = std::min(least, t.link(l).bandwidth.bytes_per_second());
  return least;
}
