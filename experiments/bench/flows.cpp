#include "experiments/bench/flows.hpp"

#include <random>

namespace tandem::bench {

std::vector<TimedFlow> desynchronised_flows() {
  std::mt19937 random(16256);
  std::vector<TimedFlow> flows;
  std::uniform_real_distribution<double> megabytes(0.5, 1.5), when(0, 0.0025);
  for (int from = 0; from < kFlowHosts; ++from)
    for (int to = 0; to < kFlowHosts; ++to)
      if (from != to) flows.push_back({from, to, megabytes(random) * 1e6, when(random)});
  return flows;
}

}  // namespace tandem::bench
