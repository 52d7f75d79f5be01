#include "sim/nccl.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

constexpr auto kAllReduce = CollectiveKind::all_reduce;
constexpr auto kGather = CollectiveKind::all_gather;

// The tuning table once more, in its own words: microseconds by LL, LL128, Simple.
struct Row {
  double base[3], inside[3], across[3];
};
constexpr Row kRing{{6.6, 14, 8.4}, {0.6, 1.9, 3.4}, {2.7, 4, 14}};
constexpr Row kTree{{6.8, 14, 8.4}, {0.6, 1.25, 4}, {5, 8.5, 14}};

double least_all_reduce_us(double n, double nodes, double ring_us) {
  double best = 1e30;
  for (int p = 0; p < 3; ++p) {
    const double rate[] = {0.5, 0.92, 1};
    const double tree_rate[] = {1 / 3.8, 0.92 * (nodes > 1 ? 120.0 / 128 : 7.0 / 9), 0.92};
    const double stretch = p == 2 && nodes > 1 ? 1.4 : 1;
    best = std::min(best, ring_us / rate[p] + stretch * (kRing.base[p] + (2 * (n - 1) - 2 * (nodes - 1)) * kRing.inside[p] +
                                                         2 * (nodes - 1) * kRing.across[p]));
    best = std::min(best, ring_us / tree_rate[p] + kTree.base[p] +
                              2 * ((n / nodes - 1) * kTree.inside[p] + std::log2(nodes) * kTree.across[p]));
  }
  return best;
}

}  // namespace

TEST_CASE("NCCL's choice is the least of its table, from bytes to gigabytes") {
  for (const std::int64_t nodes : {1, 2, 16, 448})
    for (const std::int64_t per_node : {1, 2, 8})
      for (double us = 0.1; us < 1e6; us *= 7) {
        const std::int64_t n = nodes * per_node;
        if (n < 2) continue;
        const NcclTask task{kAllReduce, n, nodes, us * 1e-6};
        CHECK(nccl_choice(task, NcclArchitecture::ampere).seconds(task) ==
              Approx(1e-6 * least_all_reduce_us(static_cast<double>(n), static_cast<double>(nodes), us)).epsilon(1e-12));
      }
}

TEST_CASE("small messages go by flags, large ones by ring or by the switch, many nodes by tree") {
  const auto pick = [](const NcclTask& t, NcclArchitecture a) { return nccl_choice(t, a); };
  const NcclChoice small = pick({kAllReduce, 8, 1, 1e-7}, NcclArchitecture::ampere);
  CHECK(small.algorithm == NcclAlgorithm::ring);
  CHECK(small.protocol == NcclProtocol::ll);
  CHECK(small.latency_s == Approx(15.0e-6));   // 6.6 + 14 steps of 0.6
  CHECK(pick({kAllReduce, 8, 1, 1e-2}, NcclArchitecture::ampere).protocol == NcclProtocol::simple);
  CHECK(pick({kAllReduce, 8, 1, 1e-2}, NcclArchitecture::hopper).algorithm == NcclAlgorithm::nvls);
  CHECK(pick({kAllReduce, 128, 16, 1e-1}, NcclArchitecture::hopper).algorithm == NcclAlgorithm::nvls_tree);
  CHECK(pick({kAllReduce, 128, 16, 1e-1}, NcclArchitecture::ampere).algorithm == NcclAlgorithm::ring);
  CHECK(pick({kAllReduce, 1024, 1024, 1e-6}, NcclArchitecture::ampere).algorithm == NcclAlgorithm::tree);
  CHECK(pick({kGather, 1024, 1024, 1e-6}, NcclArchitecture::ampere).algorithm == NcclAlgorithm::ring);
}

TEST_CASE("a gather's ring has half the steps of an all-reduce's") {
  // LL: 6.6 + 7 steps of 0.6; over 4 nodes of 2: 6.6 + 4 x 0.6 + 3 x 2.7.
  CHECK(nccl_choice({kGather, 8, 1, 0}, NcclArchitecture::ampere).latency_s == Approx(10.8e-6));
  CHECK(nccl_choice({kGather, 8, 4, 0}, NcclArchitecture::ampere).latency_s == Approx(17.1e-6));
}

TEST_CASE("generations of devices have names") {
  CHECK(nccl_architecture("volta") == NcclArchitecture::volta);
  CHECK(nccl_architecture("blackwell") == NcclArchitecture::blackwell);
  CHECK_FALSE(nccl_architecture("tesla"));
}
