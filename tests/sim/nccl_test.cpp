#include "sim/nccl.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

constexpr auto kAllReduce = CollectiveKind::all_reduce;
constexpr auto kGather = CollectiveKind::all_gather;

/// Bytes/s of a device's links inside its node, and of the network for each device.
struct Links {
  double inside = 240e9, across = 25e9;
};

/// A ring's bytes at these rates, as the simulator's network has them.
NcclTask task(CollectiveKind kind, std::int64_t ranks, std::int64_t nodes, std::int64_t bytes, const Links& links = {}) {
  NcclTask t;
  t.kind = kind, t.ranks = ranks, t.nodes = nodes, t.bytes = bytes;
  const double times = kind == kAllReduce ? 2 : 1;
  const double n = static_cast<double>(nodes), local = static_cast<double>(ranks) / n;
  t.inside_s = times * (local - 1) / local * static_cast<double>(bytes) / links.inside;
  t.across_s = times * (n - 1) / n * static_cast<double>(bytes) / (local * links.across);
  return t;
}

// NCCL's src/graph/tuning.cc once more, in its own words and units: microseconds, GB/s, by LL, LL128, Simple.
struct Row {
  double base[3], inside[3], across[3];
};
constexpr Row kRing{{6.6, 14, 8.4}, {0.6, 1.9, 3.4}, {2.7, 4, 14}};
constexpr Row kTree{{6.8, 14, 8.4}, {0.6, 1.25, 4}, {5, 8.5, 14}};
constexpr double kTreeCorrection[3][24] = {
    {1.0, 1.0, 1.0, 1.0, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1.0, 1.0, 1.0, 1.0, 1.0},
    {1.0, 1.0, 1.0, 1.0, 1.0, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1.0, 1.0, 1.0},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};

struct Planned {
  NcclAlgorithm algorithm;
  NcclProtocol protocol;
  double us;
};

/// The least of the table for an all-reduce whose ring moves `bus` GB/s and whose node's links do `inside`.
Planned least(const NcclTask& t, NcclArchitecture a, const Links& links) {
  const double n = static_cast<double>(t.ranks), nodes = static_cast<double>(t.nodes), per_node = n / nodes;
  const double bytes = static_cast<double>(t.bytes);
  const double steps = 2 * (n - 1), bus = bytes * steps / n / t.ring_s() / 1e9;
  const double ll_inside[] = {39, 87.7, 141, 282};
  const double ll_most = t.nodes == 1 ? ll_inside[static_cast<int>(a)] : t.nodes == 2 ? 39 : 20.4;
  std::optional<Planned> best;
  const auto offer = [&](NcclAlgorithm algorithm, int p, double bandwidth, double latency) {
    const double us = latency + bytes / (1000 * bandwidth);
    if (!best || us < best->us) best = Planned{algorithm, static_cast<NcclProtocol>(p), us};
  };
  for (int p = 0; p < 3; ++p) {
    const double ring = p == 0 ? std::min(ll_most, bus * .5) : p == 1 ? bus * .92 : bus;
    const double stretch = p == 2 && t.nodes > 1 ? a == NcclArchitecture::volta ? 1.9 : 1.4 : 1;
    offer(NcclAlgorithm::ring, p, ring * n / steps,
          stretch * (kRing.base[p] + (steps - 2 * (nodes - 1)) * kRing.inside[p] + 2 * (nodes - 1) * kRing.across[p]));
    double tree = bus * .92;
    if (p == 0) tree = std::min(bus / 3.8, ll_most);
    if (p == 1) tree *= t.nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0;
    const int size = t.bytes < 64 ? -1 : static_cast<int>(std::log2(bytes / 64));
    if (size >= 0 && size < 23) tree *= kTreeCorrection[p][size];
    offer(NcclAlgorithm::tree, p, tree * .5,
          kTree.base[p] + 2 * ((per_node - 1) * kTree.inside[p] + std::log2(nodes) * kTree.across[p]));
  }
  if (a < NcclArchitecture::hopper || per_node <= 2) return *best;
  const bool hopper = a == NcclArchitecture::hopper;
  const double channels = hopper ? 16 : t.nodes == 1 ? 24 : 32;
  double bandwidth = 2 * links.inside / 1e9 * (hopper ? .85 : .74) * (channels - 1) / channels;
  if (t.nodes > 1) bandwidth = std::min(bandwidth, per_node * links.across / 1e9 * (t.nodes == 2 ? 2 : 1));
  offer(t.nodes == 1 ? NcclAlgorithm::nvls : NcclAlgorithm::nvls_tree, 2, bandwidth * n / steps, 25 + 2 * std::log2(nodes) * 20.9);
  return *best;
}

}  // namespace

TEST_CASE("NCCL's choice is the least of its table, from bytes to gigabytes") {
  for (const auto a : {NcclArchitecture::volta, NcclArchitecture::ampere, NcclArchitecture::hopper, NcclArchitecture::blackwell})
    for (const std::int64_t nodes : {1, 2, 16, 448})
      for (const std::int64_t per_node : {1, 2, 4, 8})
        for (std::int64_t bytes = 48; bytes < std::int64_t{1} << 35; bytes *= 7) {
          if (nodes * per_node < 2) continue;
          const Links links = a < NcclArchitecture::hopper ? Links{} : Links{371e9, 50e9};
          const NcclTask t = task(kAllReduce, nodes * per_node, nodes, bytes, links);
          const Planned planned = least(t, a, links);
          const NcclChoice chosen = nccl_choice(t, a);
          CAPTURE(static_cast<int>(a), nodes, per_node, bytes, planned.us, chosen.seconds(t) * 1e6);
          CHECK(chosen.algorithm == planned.algorithm);
          CHECK(chosen.protocol == planned.protocol);
          if (chosen.algorithm == NcclAlgorithm::ring || chosen.algorithm == NcclAlgorithm::tree)
            CHECK(chosen.seconds(t) == Approx(1e-6 * planned.us).epsilon(1e-9));
        }
}

TEST_CASE("small messages go by flags, large ones by ring or by the switch, many nodes by tree") {
  const Links hopper{371e9, 50e9};
  const auto pick = [](const NcclTask& t, NcclArchitecture a) { return nccl_choice(t, a); };
  const NcclChoice small = pick(task(kAllReduce, 8, 1, 1000), NcclArchitecture::ampere);
  CHECK(small.algorithm == NcclAlgorithm::ring);
  CHECK(small.protocol == NcclProtocol::ll);
  CHECK(small.latency_s == Approx(15.0e-6));   // 6.6 + 14 steps of 0.6
  CHECK(pick(task(kAllReduce, 8, 1, 1 << 30), NcclArchitecture::ampere).protocol == NcclProtocol::simple);
  CHECK(pick(task(kAllReduce, 8, 1, 1 << 30, hopper), NcclArchitecture::hopper).algorithm == NcclAlgorithm::nvls);
  CHECK(pick(task(kAllReduce, 2, 1, 1 << 30, hopper), NcclArchitecture::hopper).algorithm == NcclAlgorithm::ring);
  CHECK(pick(task(kAllReduce, 1024, 128, 1 << 30, hopper), NcclArchitecture::hopper).algorithm == NcclAlgorithm::nvls_tree);
  CHECK(pick(task(kAllReduce, 128, 16, std::int64_t{1} << 33), NcclArchitecture::ampere).algorithm == NcclAlgorithm::ring);
  CHECK(pick(task(kAllReduce, 1024, 1024, 4096), NcclArchitecture::ampere).algorithm == NcclAlgorithm::tree);
  CHECK(pick(task(kGather, 1024, 1024, 4096), NcclArchitecture::ampere).algorithm == NcclAlgorithm::ring);
}

// As NCCL 2.27.7 did: stas00/ml-engineering:network/README.md.
TEST_CASE("eight H200 change from rings in LL to the switch at 2 MiB") {
  const Links links{371e9, 50e9};
  CHECK(nccl_choice(task(kAllReduce, 8, 1, 1 << 20, links), NcclArchitecture::hopper).protocol == NcclProtocol::ll);
  CHECK(nccl_choice(task(kAllReduce, 8, 1, 2 << 20, links), NcclArchitecture::hopper).algorithm == NcclAlgorithm::nvls);
}

TEST_CASE("in the switch a device's links carry the vector and its share of it, after a round of chunks for every stage") {
  const double rate = 371e9;
  const Links links{rate, 50e9};
  const std::int64_t bytes = std::int64_t{1} << 30;
  NcclTask t = task(kAllReduce, 8, 1, bytes, links);
  const double alone = static_cast<double>(bytes) * (1 + 1.0 / 8) / (0.85 * rate);
  // 16 channels and 8 heads with chunks of 128 KiB are 16 MiB a round; a reduction and a broadcast.
  CHECK(nccl_choice(t, NcclArchitecture::hopper).seconds(t) == Approx(25e-6 + alone * (1 + 2.0 / 64)));
  t.in_switch_share = 0.5;
  CHECK(nccl_choice(t, NcclArchitecture::hopper).seconds(t) == Approx(25e-6 + alone * 1.7 * (1 + 2.0 / 64)));
  // Half of it has chunks of 64 KiB; a sixteenth of it is at the border of 64 and 32.
  const NcclTask half = task(kAllReduce, 8, 1, bytes / 2, links), sixteenth = task(kAllReduce, 8, 1, bytes / 16, links);
  CHECK(nccl_choice(half, NcclArchitecture::hopper).seconds(half) == Approx(25e-6 + alone / 2 * (1 + 2.0 / 64)));
  CHECK(nccl_choice(sixteenth, NcclArchitecture::hopper).seconds(sixteenth) == Approx(25e-6 + alone / 16 * (1 + 2.0 / 8)));
  // 72 devices have 32 heads; 24 channels: 96 MiB a round of chunks of 128 KiB, 48 of 64.
  const NcclTask rack = task(kAllReduce, 72, 1, bytes, links);
  CHECK(nccl_choice(rack, NcclArchitecture::blackwell).seconds(rack) ==
        Approx(25e-6 + static_cast<double>(bytes) * (1 + 1.0 / 32) / (0.74 * rate) * (1 + 2.0 * 48 / 1024)));
}

TEST_CASE("between nodes the switches' reductions go up and down a tree, by both ways at once where there are two") {
  const Links links{371e9, 50e9};
  const double bytes = static_cast<double>(std::int64_t{1} << 30);
  const NcclTask two = task(kAllReduce, 16, 2, 1 << 30, links), many = task(kAllReduce, 1024, 128, 1 << 30, links);
  const auto between_two = nccl_choice(two, NcclArchitecture::hopper), among_many = nccl_choice(many, NcclArchitecture::hopper);
  REQUIRE((between_two.algorithm == NcclAlgorithm::nvls_tree && among_many.algorithm == NcclAlgorithm::nvls_tree));
  // The node's links are slower than two ways through 400 GB/s; 128 KiB x 128 at once; 4 stages.
  CHECK(between_two.seconds(two) == Approx(66.8e-6 + bytes * 1.125 / (0.85 * 371e9) * (1 + 4.0 / 64)));
  // All of it up and down through 400 GB/s; 64 KiB x 128 at once; 16 stages.
  CHECK(among_many.seconds(many) == Approx((25 + 14 * 20.9) * 1e-6 + bytes * 2 * 1023 / 1024 / 400e9 * (1 + 16.0 / 128)));
}

TEST_CASE("a gather's ring has half the steps of an all-reduce's") {
  // LL: 6.6 + 7 steps of 0.6; over 4 nodes of 2: 6.6 + 4 x 0.6 + 3 x 2.7.
  CHECK(nccl_choice(task(kGather, 8, 1, 0), NcclArchitecture::ampere).latency_s == Approx(10.8e-6));
  CHECK(nccl_choice(task(kGather, 8, 4, 0), NcclArchitecture::ampere).latency_s == Approx(17.1e-6));
}

TEST_CASE("generations of devices have names") {
  CHECK(nccl_architecture("volta") == NcclArchitecture::volta);
  CHECK(nccl_architecture("blackwell") == NcclArchitecture::blackwell);
  CHECK_FALSE(nccl_architecture("tesla"));
}
