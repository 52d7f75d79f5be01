#include "sim/nccl/nccl_search.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "tests/catch.hpp"
#include "tests/sim/network/nccl_table.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

/// The table's least by NCCL's rates, and its time at the task's.
NcclAlgorithm check(const NcclTask& t, NcclArchitecture a) {
  const std::vector<Time> planned = Table(t, a).planned(), real = Table(t, a).real();
  const Time least = *std::min_element(planned.begin(), planned.end(), [](const Time& x, const Time& y) { return x.us < y.us; });
  const NcclChoice chosen = nccl_choice(t, a);
  CAPTURE(static_cast<int>(a), static_cast<int>(t.kind), t.nodes, t.ranks, t.bytes, least.us, chosen.seconds(t) * 1e6);
  CHECK(chosen.algorithm == least.algorithm);
  CHECK(chosen.protocol == least.protocol);
  for (const Time& time : real)
    if (time.algorithm == chosen.algorithm && time.protocol == chosen.protocol)
      CHECK(chosen.seconds(t) == Approx(1e-6 * time.us).epsilon(1e-9));
  return chosen.algorithm;
}

constexpr auto kArchitectures = {NcclArchitecture::volta, NcclArchitecture::ampere, NcclArchitecture::hopper,
                                 NcclArchitecture::blackwell};

/// Every generation, number of nodes and of ranks on each, and size from bytes to gigabytes; `set` changes the task.
template <class Set>
std::set<NcclAlgorithm> check_all(CollectiveKind kind, const Set& set) {
  std::set<NcclAlgorithm> chosen;
  const Links links[] = {{130e9, 12.5e9}, {240e9, 25e9}, {371e9, 50e9}, {722e9, 50e9}};
  for (const auto a : kArchitectures)
    for (const std::int64_t nodes : {1, 2, 3, 16, 448})
      for (const std::int64_t per_node : {1, 2, 4, 8})
        for (std::int64_t bytes = 48; bytes < std::int64_t{1} << 35; bytes *= 7) {
          if (nodes * per_node < 2) continue;
          NcclTask t = task(kind, nodes * per_node, nodes, bytes, links[static_cast<int>(a)], a);
          set(t);
          chosen.insert(check(t, a));
        }
  return chosen;
}

}  // namespace

TEST_CASE("NCCL_ALGO keeps rings alone, or all but reductions in switches, of the same table") {
  using enum NcclAlgorithm;
  const Links links{371e9, 50e9};
  for (const std::int64_t nodes : {1, 4})
    for (std::int64_t bytes = 4096; bytes < std::int64_t{1} << 32; bytes *= 8)
      for (const bool only_ring : {true, false}) {
        NcclTask t = task(kAllReduce, 8 * nodes, nodes, bytes, links, NcclArchitecture::hopper);
        std::vector<Time> planned = Table(t, NcclArchitecture::hopper).planned();
        std::erase_if(planned, [&](const Time& time) {
          return only_ring ? time.algorithm != ring : time.algorithm == nvls || time.algorithm == nvls_tree;
        });
        const Time least =
            *std::min_element(planned.begin(), planned.end(), [](const Time& x, const Time& y) { return x.us < y.us; });
        (only_ring ? t.only_ring : t.no_nvls) = true;
        const NcclChoice chosen = nccl_choice(t, NcclArchitecture::hopper);
        CAPTURE(nodes, bytes, only_ring);
        CHECK(chosen.algorithm == least.algorithm);
        CHECK(chosen.protocol == least.protocol);
      }
  NcclTask large = task(kAllReduce, 8, 1, std::int64_t{1} << 30, links, NcclArchitecture::hopper);
  CHECK(nccl_choice(large, NcclArchitecture::hopper).algorithm == nvls);  // so there was something to keep it from
}

// src/graph/tuning.cc: perChMaxTreeBws of Ampere on two nodes is 23.6 GB/s a channel; src/graph/search.cc: NICs of 22.5 GB/s give 4
// channels of 20, such of 25 give 4 of 24, and from 25 a channel is split in two (ncclTopoDupChannels).
TEST_CASE("NCCL turns from a tree to a ring and back as four NICs of a node get faster") {
  using enum NcclAlgorithm;
  const auto a = NcclArchitecture::ampere;
  const auto at = [&](double nic) {
    NcclTask t = task(kAllReduce, 16, 2, std::int64_t{1} << 30, {240e9, nic / 2}, a);
    t.graphs = nccl_search({.ranks = 8, .links = 300e9, .nics = 4, .nic = nic}, a);
    return t;
  };
  CHECK(nccl_choice(at(22.5e9), a).algorithm == tree);
  CHECK(nccl_choice(at(25e9), a).algorithm == ring);
  CHECK(nccl_choice(at(31.25e9), a).algorithm == tree);
  // A ring sends twice between the nodes what a tree of two does. Over NICs that reach 60 % of their rate it is slower.
  NcclTask real = at(25e9);
  CHECK(nccl_fastest(real, a).algorithm == ring);
  real.across_s /= 0.6;
  CHECK(nccl_choice(real, a).algorithm == ring);
  CHECK(nccl_fastest(real, a).algorithm == tree);
  CHECK(nccl_fastest(real, a).seconds(real) < 0.75 * nccl_choice(real, a).seconds(real));
}

TEST_CASE("NCCL's choice is the least of its table, from bytes to gigabytes") {
  using enum NcclAlgorithm;
  for (const auto processor : {HostProcessor::other, HostProcessor::intel, HostProcessor::amd})
    for (const double latency : {0.0, 25e-6}) {
      const auto set = [&](NcclTask& t) { t.processor = processor, t.network_latency_s = latency; };
      CHECK(check_all(kAllReduce, set) == std::set{ring, tree, nvls, nvls_tree});
      CHECK(check_all(kGather, set) == std::set{ring, pat});
      CHECK(check_all(CollectiveKind::reduce_scatter, set) == std::set{ring, pat});
    }
}

TEST_CASE("where the network reduces, NCCL's choice is the least of its table too") {
  using enum NcclAlgorithm;
  std::set<NcclAlgorithm> chosen;
  for (const std::int64_t sharing : {1, 2})
    for (const bool switched : {true, false}) {
      const auto set = [&](NcclTask& t) {
        t.network_reduces = true, t.switched = switched, t.nics = std::max<std::int64_t>(1, t.nics / sharing);
      };
      if (switched) chosen.merge(check_all(kAllReduce, set));
      for (const std::int64_t bytes : {std::int64_t{1000}, std::int64_t{1} << 22, std::int64_t{1} << 30}) {
        NcclTask t = task(kAllReduce, 128, 16, bytes);
        set(t);
        chosen.insert(check(t, NcclArchitecture::ampere));
      }
    }
  CHECK(chosen.contains(collnet_direct));
  CHECK(chosen.contains(collnet_chain));
  CHECK(chosen.contains(nvls));
}

TEST_CASE("over PCIe NCCL has slower steps, no LL128 and no reduction in switches") {
  using enum NcclAlgorithm;
  const auto set = [](NcclTask& t) { t.pcie = t.ranks > t.nodes, t.switched = false; };
  CHECK(check_all(kAllReduce, set) == std::set{ring, tree});
  CHECK(check_all(kGather, set) == std::set{ring, pat});
  std::set<NcclProtocol> over_nvlink, over_pcie;
  for (std::int64_t bytes = 1024; bytes < std::int64_t{1} << 30; bytes *= 2) {
    NcclTask t = task(kAllReduce, 8, 1, bytes);
    over_nvlink.insert(nccl_choice(t, NcclArchitecture::ampere).protocol);
    set(t);
    over_pcie.insert(nccl_choice(t, NcclArchitecture::ampere).protocol);
  }
  CHECK(over_nvlink.contains(NcclProtocol::ll128));  // so there was something to leave out
  CHECK(over_pcie == std::set{NcclProtocol::ll, NcclProtocol::simple});
}

TEST_CASE("a network's plugin may allow Simple alone and say of its steps what NCCL plans by") {
  using enum NcclAlgorithm;
  const auto set = [](NcclTask& t) { t.only_simple = true, t.network_latency_s = 18e-6, t.reported_latency_s = 75e-6; };
  CHECK(check_all(kAllReduce, set) == std::set{ring, tree, nvls, nvls_tree});
  NcclTask t = task(kAllReduce, 16, 2, 1024);
  CHECK(nccl_choice(t, NcclArchitecture::ampere).protocol == NcclProtocol::ll);
  set(t);
  const NcclChoice choice = nccl_choice(t, NcclArchitecture::ampere);
  CHECK((choice.algorithm == tree && choice.protocol == NcclProtocol::simple));
  CHECK(choice.seconds(t) == Approx(164.4e-6).epsilon(0.01));  // 8.4 + 2 (7 x 4 + 14 + 2 x 18)
}

// 16 A100 on two nodes with 4 NICs of 12.5 GB/s each: 4 channels, twice.
TEST_CASE("every stage of a tree waits for a chunk of all channels, of a small vector for all of it") {
  const auto tree_of = [](std::int64_t bytes, std::int64_t buffer = 4 << 20) {
    NcclTask t = task(kAllReduce, 16, 2, bytes, {240e9, 6.25e9});
    t.graphs = nccl_search({8, 300e9, 0, 4, 12.5e9}, NcclArchitecture::ampere);
    t.only_simple = true, t.buffer = buffer;
    const NcclChoice choice = nccl_choice(t, NcclArchitecture::ampere);
    REQUIRE(choice.algorithm == NcclAlgorithm::tree);
    return choice.seconds(t);
  };
  const double latency = 92.4e-6, node = 50e9, device = 240e9;
  const auto waits = [&](double bytes) { return 14 * bytes / device + bytes / node; };
  // Chunks are 512 KiB, an eighth of the buffer, on 8 channels.
  const double small = 1 << 20, round = 8 << 19, large = 1 << 28, rate = 0.92 * node;
  CHECK(tree_of(1 << 20) == Approx(latency + small / rate + waits(small)));
  CHECK(tree_of(8 << 19) == Approx(latency + round / rate + waits(round)));
  CHECK(tree_of(1 << 28) == Approx(latency + large / rate + waits(round)));
  CHECK(tree_of(1 << 28, 8 << 20) == Approx(latency + large / rate + waits(2 * round)));
}

TEST_CASE("channels are what NCCL's search finds") {
  const auto equal = [](const NcclGraphs& found, const Graphs& by_hand) {
    CHECK(static_cast<double>(found.channels) == by_hand.channels);
    CHECK(found.ring == Approx(1e9 * by_hand.ring));
    CHECK(found.tree_inside == Approx(1e9 * by_hand.tree_inside));
    CHECK(found.tree_across == Approx(1e9 * by_hand.tree_across));
    CHECK(static_cast<double>(found.heads) == by_hand.heads);
    CHECK(found.head_inside == Approx(1e9 * by_hand.head_inside));
    CHECK(found.head_across == Approx(1e9 * by_hand.head_across));
  };
  for (const auto a : kArchitectures)
    for (int power = 0; power < 4; ++power) {
      CAPTURE(static_cast<int>(a), power);
      if (power > 0) equal(nccl_search(node(a, 1 << power, 1), a), kInside[static_cast<int>(a)][power]);
      equal(nccl_search(node(a, 3 << power, 3), a), kAcross[static_cast<int>(a)][power]);
    }
  using enum NcclArchitecture;
  equal(nccl_search({8, 300e9, 0, 4, 12.5e9}, ampere), {4, 12, 24, 12});    // two A100 to a NIC of 100 Gb/s
  const NcclGraphs rack = nccl_search({72, 900e9, 0, 72, 50e9}, blackwell);  // NVLinks, not NICs, are the limit
  CHECK((rack.channels == 16 && rack.ring == 45.1e9));
  CHECK(nccl_search({72, 900e9, 0, 0, 0}, blackwell).heads == 32);
  equal(nccl_search({8, 150e9, 6, 0, 0}, volta), {6, 20, 20, 20});          // a cube mesh' own rings
  equal(nccl_search({.ranks = 8, .links = 31.5e9, .pcie = true}, ampere), {2, 12, 12, 12});   // PCIe 4.0 counts as 24 GB/s
  equal(nccl_search({.ranks = 8, .links = 63e9, .pcie = true}, hopper), {2, 24, 24, 24});     // PCIe 5.0 as 48
  equal(nccl_search({1, 0, 0, 1, 0.01e9}, ampere), {1, 0.1, 0.1, 0.1});     // slower than all rates it knows
}

// stas00/ml-engineering:network/README.md: with 4 H200 the bus carries 363 GB/s, as by ring, with 5 it is 414. B200 change with 6
// in NCCL 2.27.7, whose rule for them was another: 6 are not asked for.
TEST_CASE("large vectors go through the switch from five H200 on and by rings below, of B200 not yet at five but at seven") {
  const std::int64_t bytes = std::int64_t{1} << 33;
  const auto pick = [&](std::int64_t ranks, const Links& links, NcclArchitecture a) {
    return nccl_choice(task(kAllReduce, ranks, 1, bytes, links, a), a).algorithm;
  };
  const Links h200{371e9, 50e9}, b200{720e9, 50e9};
  CHECK(pick(4, h200, NcclArchitecture::hopper) == NcclAlgorithm::ring);
  CHECK(pick(5, h200, NcclArchitecture::hopper) == NcclAlgorithm::nvls);
  CHECK(pick(5, b200, NcclArchitecture::blackwell) == NcclAlgorithm::ring);
  CHECK(pick(7, b200, NcclArchitecture::blackwell) == NcclAlgorithm::nvls);
}

TEST_CASE("small messages go by flags, large ones by ring or by the switch, many nodes by tree") {
  const auto pick = [](const NcclTask& t, NcclArchitecture a) { return nccl_choice(t, a); };
  const NcclChoice small = pick(task(kAllReduce, 8, 1, 1000), NcclArchitecture::ampere);
  CHECK(small.algorithm == NcclAlgorithm::ring);
  CHECK(small.protocol == NcclProtocol::ll);
  CHECK(small.latency_s == Approx(15.0e-6));   // 6.6 + 14 steps of 0.6
  CHECK(pick(task(kAllReduce, 8, 1, 1 << 30), NcclArchitecture::ampere).protocol == NcclProtocol::simple);
  CHECK(pick(hopper_task(kAllReduce, 8, 1, 1 << 30), NcclArchitecture::hopper).algorithm == NcclAlgorithm::nvls);
  CHECK(pick(hopper_task(kAllReduce, 2, 1, 1 << 30), NcclArchitecture::hopper).algorithm == NcclAlgorithm::ring);
  CHECK(pick(hopper_task(kAllReduce, 1024, 128, 1 << 30), NcclArchitecture::hopper).algorithm == NcclAlgorithm::nvls_tree);
  CHECK(pick(task(kAllReduce, 128, 16, std::int64_t{1} << 33), NcclArchitecture::ampere).algorithm == NcclAlgorithm::ring);
  CHECK(pick(task(kAllReduce, 1024, 1024, 4096), NcclArchitecture::ampere).algorithm == NcclAlgorithm::tree);
  CHECK(pick(task(kGather, 16, 2, 4096), NcclArchitecture::ampere).algorithm == NcclAlgorithm::ring);
  CHECK(pick(task(kGather, 1024, 1024, 4096), NcclArchitecture::ampere).algorithm == NcclAlgorithm::pat);
}

// As NCCL 2.27.7 did: stas00/ml-engineering:network/README.md.
TEST_CASE("eight H200 change from rings in LL to the switch at 2 MiB") {
  CHECK(nccl_choice(hopper_task(kAllReduce, 8, 1, 1 << 20), NcclArchitecture::hopper).protocol == NcclProtocol::ll);
  CHECK(nccl_choice(hopper_task(kAllReduce, 8, 1, 2 << 20), NcclArchitecture::hopper).algorithm == NcclAlgorithm::nvls);
}

TEST_CASE("in the switch a device's links carry the vector and its share of it, after a round of chunks for every stage") {
  const double rate = 371e9;
  const std::int64_t bytes = std::int64_t{1} << 30;
  NcclTask t = hopper_task(kAllReduce, 8, 1, bytes);
  const double alone = static_cast<double>(bytes) * (1 + 1.0 / 8) / (0.85 * rate);
  // 16 channels and 8 heads with chunks of 128 KiB are 16 MiB a round; a reduction and a broadcast.
  CHECK(nccl_choice(t, NcclArchitecture::hopper).seconds(t) == Approx(25e-6 + alone * (1 + 2.0 / 64)));
  t.in_switch_share = 0.5;
  CHECK(nccl_choice(t, NcclArchitecture::hopper).seconds(t) == Approx(25e-6 + alone * 1.7 * (1 + 2.0 / 64)));
  // Half of it has chunks of 64 KiB; a sixteenth of it is at the border of 64 and 32.
  const NcclTask half = hopper_task(kAllReduce, 8, 1, bytes / 2), sixteenth = hopper_task(kAllReduce, 8, 1, bytes / 16);
  CHECK(nccl_choice(half, NcclArchitecture::hopper).seconds(half) == Approx(25e-6 + alone / 2 * (1 + 2.0 / 64)));
  CHECK(nccl_choice(sixteenth, NcclArchitecture::hopper).seconds(sixteenth) == Approx(25e-6 + alone / 16 * (1 + 2.0 / 8)));
  // 72 devices have 32 heads; 24 channels: 96 MiB a round of chunks of 128 KiB, 48 of 64.
  const NcclTask rack = task(kAllReduce, 72, 1, bytes, {rate, 50e9}, NcclArchitecture::blackwell);
  CHECK(nccl_choice(rack, NcclArchitecture::blackwell).seconds(rack) ==
        Approx(25e-6 + static_cast<double>(bytes) * (1 + 1.0 / 32) / (0.74 * rate) * (1 + 2.0 * 48 / 1024)));
  // Where a network's plugin asks for chunks of 512 KiB: 64 MiB a round of 4 GiB.
  NcclTask large = hopper_task(kAllReduce, 8, 1, 4 * bytes);
  large.nvls_chunk = 512 << 10;
  CHECK(nccl_choice(large, NcclArchitecture::hopper).seconds(large) == Approx(25e-6 + 4 * alone * (1 + 2.0 / 64)));
}

TEST_CASE("between nodes the switches' reductions go up and down a tree, by both ways at once where there are two") {
  const double bytes = static_cast<double>(std::int64_t{1} << 30);
  const NcclTask two = hopper_task(kAllReduce, 16, 2, 1 << 30), many = hopper_task(kAllReduce, 1024, 128, 1 << 30);
  const auto between_two = nccl_choice(two, NcclArchitecture::hopper), among_many = nccl_choice(many, NcclArchitecture::hopper);
  REQUIRE((between_two.algorithm == NcclAlgorithm::nvls_tree && among_many.algorithm == NcclAlgorithm::nvls_tree));
  // The node's links are slower than two ways through 400 GB/s; 128 KiB x 128 at once; 4 stages.
  CHECK(between_two.seconds(two) == Approx(66.8e-6 + bytes * 1.125 / (0.85 * 371e9) * (1 + 4.0 / 64)));
  // All of it up and down through 400 GB/s; 64 KiB x 128 at once; 16 stages.
  CHECK(among_many.seconds(many) == Approx((25 + 14 * 20.9) * 1e-6 + bytes * 2 * 1023 / 1024 / 400e9 * (1 + 16.0 / 128)));
}

TEST_CASE("a gather's ring has half the steps of an all-reduce's") {
  // LL: 6.6 + 7 steps of 0.6; over 4 nodes of 2: 6.6 + 4 posts of 1 + 3 x 2.7.
  CHECK(nccl_choice(task(kGather, 8, 1, 0), NcclArchitecture::ampere).latency_s == Approx(10.8e-6));
  CHECK(nccl_choice(task(kGather, 8, 4, 0), NcclArchitecture::ampere).latency_s == Approx(18.7e-6));
}

TEST_CASE("generations of devices have names") {
  CHECK(nccl_architecture("volta") == NcclArchitecture::volta);
  CHECK(nccl_architecture("blackwell") == NcclArchitecture::blackwell);
  CHECK_FALSE(nccl_architecture("tesla"));
}
