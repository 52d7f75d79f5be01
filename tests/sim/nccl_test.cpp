#include "sim/nccl_search.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

constexpr auto kAllReduce = CollectiveKind::all_reduce;
constexpr auto kGather = CollectiveKind::all_gather;

/// Bytes/s of a device's links inside its node, and of the network for each device, as a ring reaches them.
struct Links {
  double inside = 240e9, across = 25e9;
};

/// Built rates of the links of `Links` and more of the same sort.
NcclNode node(NcclArchitecture a, std::int64_t ranks, std::int64_t nodes) {
  const double links[] = {150e9, 300e9, 450e9, 900e9}, nics[] = {12.5e9, 25e9, 50e9, 50e9};
  const std::int64_t local = ranks / nodes;
  return {local, local > 1 ? links[static_cast<int>(a)] : 0, 0, nodes > 1 ? local : 0, nodes > 1 ? nics[static_cast<int>(a)] : 0};
}

/// A ring's bytes at these rates, as the simulator's network has them.
NcclTask task(CollectiveKind kind, std::int64_t ranks, std::int64_t nodes, std::int64_t bytes, const Links& links = {},
              NcclArchitecture a = NcclArchitecture::ampere) {
  NcclTask t;
  t.kind = kind, t.ranks = ranks, t.nodes = nodes, t.bytes = bytes;
  const double n = static_cast<double>(ranks), local = n / static_cast<double>(nodes);
  const double sent = (kind == kAllReduce ? 2 : 1) * (n - 1) / n * static_cast<double>(bytes);
  t.inside_s = local > 1 ? sent / links.inside : 0;
  t.across_s = nodes > 1 ? sent / (local * links.across) : 0;
  t.graphs = nccl_search(node(a, ranks, nodes), a);
  t.nics = nodes > 1 ? ranks / nodes : 1;
  return t;
}

/// Of eight H100 to a node.
NcclTask hopper_task(CollectiveKind kind, std::int64_t ranks, std::int64_t nodes, std::int64_t bytes) {
  return task(kind, ranks, nodes, bytes, {371e9, 50e9}, NcclArchitecture::hopper);
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
// By generation, then 1, 2 and more nodes.
constexpr double kLlMax[4][3] = {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}, {282.0, 90.0, 70.0}};
constexpr double kRingLl128Max[4] = {20.0, 20.0, 36.7, 40.0};
constexpr double kTreeLl128Max[4][3] = {{20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 29.0}, {55.6, 31.67, 20.0}};
constexpr double kTreeMax[4][3] = {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70.0, 42.8, 24.0}};
constexpr double kNvlsTreeMax[4][3] = {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {0.0, 57.7, 45.5}, {0.0, 96.0, 80.0}};

/// What the search finds, GB/s a channel: channels, rings, trees inside and between nodes; heads, theirs inside and between.
struct Graphs {
  double channels, ring, tree_inside, tree_across;
  double heads = 1, head_inside = 0, head_across = 0;
};
// Worked out by hand from src/graph/search.cc, by generation, for 1, 2, 4 and 8 devices of a node (`node` has their links).
// Inside, Volta's links carry 120 (6 x 20 GB/s), Ampere's 240 (6 x 40, split), Hopper's 370.8 (6 x 60, split), Blackwell's 721.8
// (8 x 90, split); chains of trees need (n-1)/n of them, NVLS 1 + 1/heads of each head's rate.
constexpr Graphs kInside[4][4] = {{{}, {6, 20, 40, 40}, {6, 20, 20, 20}, {6, 20, 20, 20}},
                                  {{}, {12, 20, 40, 40}, {12, 20, 20, 20}, {12, 20, 20, 20}},
                                  {{}, {12, 30, 60, 60, 2, 60, 60}, {12, 30, 40, 40, 4, 60, 60}, {12, 30, 30, 30, 8, 40, 40}},
                                  {{}, {16, 45, 90, 90, 2, 90, 90}, {16, 45, 60, 60, 4, 90, 90}, {16, 45, 50, 50, 8, 80, 80}}};
// Between nodes a NIC of 12.5 GB/s takes a channel of 12, of 25 one of 24, of 50 one of 48 (split where there are 4 or fewer);
// eight of 48 are more than Hopper's links carry in rings, but not in trees.
constexpr Graphs kAcross[4][4] = {
    {{1, 12, 24, 12}, {2, 12, 24, 12}, {4, 12, 24, 12}, {8, 12, 15, 12}},
    {{1, 24, 48, 24}, {2, 24, 48, 24}, {4, 24, 48, 24}, {8, 24, 30, 24}},
    {{2, 24, 48, 24}, {4, 24, 48, 24, 2, 48, 48}, {8, 24, 48, 24, 4, 48, 48}, {8, 45, 48, 48, 8, 40, 48}},
    {{2, 24, 48, 24}, {4, 24, 48, 24, 2, 48, 48}, {8, 24, 48, 24, 4, 48, 48}, {8, 48, 96, 48, 8, 48, 48}}};

struct Time {
  NcclAlgorithm algorithm;
  NcclProtocol protocol;
  double us;
};

/// GB/s of a bus under rings, trees, reductions in the network.
struct Bus {
  double ring, tree, collnet;
};

class Table {
 public:
  Table(const NcclTask& t, NcclArchitecture a)
      : t_(t), a_(static_cast<int>(a)), n_(static_cast<double>(t.ranks)), nodes_(static_cast<double>(t.nodes)), ppn_(n_ / nodes_),
        bytes_(static_cast<double>(t.bytes)), nsteps_((t.kind == kAllReduce ? 2 : 1) * (n_ - 1)),
        index2_(t.nodes <= 2 ? static_cast<int>(t.nodes) - 1 : 2),
        graphs_((t.nodes == 1 ? kInside : kAcross)[a_][static_cast<int>(std::log2(ppn_))]),
        log2i_(std::floor(std::log2(nodes_))), size_(t.bytes < 64 ? -1 : static_cast<int>(std::log2(bytes_ / 64))) {}

  /// All that is offered, as NCCL counts.
  std::vector<Time> planned() {
    fill({graphs_.channels * graphs_.ring, graphs_.channels * (t_.nodes <= 2 ? graphs_.tree_inside : graphs_.tree_across),
          graphs_.channels * graphs_.tree_inside});
    if (t_.kind == kAllReduce) in_nodes();
    return std::move(times_);
  }
  /// The same at the task's rates, but for what the nodes' switches do.
  std::vector<Time> real() {
    const double once = bus(std::max(t_.inside_s, t_.across_s / 2));
    fill({bus(t_.ring_s()), t_.nodes <= 2 ? once : bus(t_.ring_s()), once});
    return std::move(times_);
  }

 private:
  static constexpr int kSimple = 2;

  void fill(const Bus& b) {
    for (int p = 0; p < 3; ++p) ring(b.ring, p), tree(b.tree, p);
    pat(b.tree);
    if (t_.kind == kAllReduce) in_network(b.collnet);
  }
  void offer(NcclAlgorithm algorithm, int p, double bandwidth, double latency) {
    times_.push_back({algorithm, static_cast<NcclProtocol>(p), latency + bytes_ / (1000 * bandwidth)});
  }
  /// Of a graph that takes this long for what a ring sends.
  double bus(double seconds) const { return bytes_ * nsteps_ / n_ / seconds / 1e9; }
  double inter(double own, int p) const {
    return (t_.ranks == t_.nodes ? kTree.across[p] : own) + t_.network_latency_s * 1e6 * (p == kSimple ? 2 : 1);
  }
  double ll_max() const { return kLlMax[t_.nodes == 1 ? a_ : t_.processor == HostProcessor::amd ? 1 : 0][index2_]; }

  void ring(double bw, int p) {
    if (p == 0) bw = std::min(ll_max(), bw * .5);
    if (p == 1) bw = std::min(bw * .92, graphs_.channels * kRingLl128Max[a_]);
    const double overhead = t_.nodes == 1 ? 0 : (t_.processor == HostProcessor::amd ? 2.0 : 1.0) * (p == kSimple ? 3 : 1);
    const double steps_across = nodes_ == 1 ? 0 : t_.kind == kAllReduce ? 2 * (nodes_ - 1) : nodes_ - 1;
    double latency = kRing.base[p] + (nsteps_ - steps_across) * std::max(kRing.inside[p], overhead) +
                     steps_across * inter(kRing.across[p], p);
    const auto of_all = static_cast<std::int64_t>(2 * graphs_.channels) * t_.ranks;
    if (p == kSimple && t_.nodes > 1 && t_.kind == kAllReduce && t_.bytes / of_all >= 64) latency *= a_ == 0 ? 1.9 : 1.4;
    offer(NcclAlgorithm::ring, p, bw * n_ / nsteps_, latency);
  }

  void tree(double bw, int p) {
    if (t_.kind != kAllReduce) return;
    bw = std::min(bw * .92, graphs_.channels * kTreeMax[a_][index2_]);
    if (p == 0) bw = std::min(bw / 3.8, ll_max());
    if (p == 1) bw = std::min(bw * (t_.nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0), graphs_.channels * kTreeLl128Max[a_][index2_]);
    if (size_ >= 0 && size_ < 23) bw *= kTreeCorrection[p][size_];
    offer(NcclAlgorithm::tree, p, bw * .5,
          kTree.base[p] + 2 * ((ppn_ - 1) * kTree.inside[p] + log2i_ * inter(kTree.across[p], p)));
  }

  void pat(double bw) {
    if (t_.kind == kAllReduce || t_.ranks != t_.nodes) return;
    offer(NcclAlgorithm::pat, kSimple, bw * .75, 8 + log2i_ * inter(14, kSimple) / 3.5 + n_ * 2.8);
  }

  void in_nodes() {
    if (a_ < 2 || ppn_ <= 2 || !t_.switched) return;
    const double heads = graphs_.heads, across = t_.nodes == 1 ? 1e9 : graphs_.head_across;
    const double inside = 2 * graphs_.head_inside * (a_ == 2 ? .85 : .74) * (heads - 1) / heads;
    if (t_.nodes == 1) return offer(NcclAlgorithm::nvls, kSimple, heads * inside * n_ / nsteps_, 25);
    if (t_.network_reduces)
      offer(NcclAlgorithm::nvls, kSimple, heads * std::min(inside, across) * n_ / nsteps_, 25 + inter(18, kSimple));
    double bw = heads * std::min({inside, t_.nodes == 2 ? across * 2 : across, kNvlsTreeMax[a_][index2_]});
    if (a_ == 3 && t_.processor != HostProcessor::other && size_ >= 0 && size_ < 23) bw *= kTreeCorrection[kSimple][size_];
    offer(NcclAlgorithm::nvls_tree, kSimple, bw * n_ / nsteps_, 25 + 2 * log2i_ * inter(20.9, kSimple));
  }

  void in_network(double bw) {
    if (!t_.network_reduces || t_.nodes == 1) return;
    double factor = ppn_ / static_cast<double>(t_.nics);
    factor -= (factor - 1) / 2;
    if (t_.switched)
      offer(NcclAlgorithm::collnet_direct, kSimple, bw / factor * (a_ >= 2 ? .85 : 1) * .5,
            2 * (std::min(1.0, ppn_ - 1) * 3.7 + (ppn_ - 1) * 0.4) + inter(31, kSimple));
    offer(NcclAlgorithm::collnet_chain, kSimple, bw * .5, 2 * (ppn_ - 1) * 2.8 + inter(30, kSimple));
  }

  const NcclTask& t_;
  int a_;
  double n_, nodes_, ppn_, bytes_, nsteps_;
  int index2_;
  Graphs graphs_;
  double log2i_;
  int size_;
  std::vector<Time> times_;
};

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
