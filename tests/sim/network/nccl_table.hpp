#pragma once
// NCCL's tuning model once more, in its own words and units, and what its kernels take besides: the oracle of sim/nccl.

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/nccl/nccl_search.hpp"

namespace tandem::sim::test {

inline constexpr auto kAllReduce = CollectiveKind::all_reduce;
inline constexpr auto kGather = CollectiveKind::all_gather;

/// Bytes/s of a device's links inside its node, and of the network for each device, as a ring reaches them.
struct Links {
  double inside = 240e9, across = 25e9;
};

/// Built rates of the links of `Links` and more of the same sort.
inline NcclNode node(NcclArchitecture a, std::int64_t ranks, std::int64_t nodes) {
  const double links[] = {150e9, 300e9, 450e9, 900e9}, nics[] = {12.5e9, 25e9, 50e9, 50e9};
  const std::int64_t local = ranks / nodes;
  return {local, local > 1 ? links[static_cast<int>(a)] : 0, 0, nodes > 1 ? local : 0, nodes > 1 ? nics[static_cast<int>(a)] : 0};
}

/// A ring's bytes at these rates, as the simulator's network has them.
inline NcclTask task(CollectiveKind kind, std::int64_t ranks, std::int64_t nodes, std::int64_t bytes, const Links& links = {},
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

/// A collective on nodes of eight H100.
inline NcclTask hopper_task(CollectiveKind kind, std::int64_t ranks, std::int64_t nodes, std::int64_t bytes) {
  return task(kind, ranks, nodes, bytes, {371e9, 50e9}, NcclArchitecture::hopper);
}

// NCCL's src/graph/tuning.cc once more, in its own words and units: microseconds, GB/s, by LL, LL128, Simple.
struct Row {
  double base[3], inside[3], across[3];
};
inline constexpr Row kRing{{6.6, 14, 8.4}, {0.6, 1.9, 3.4}, {2.7, 4, 14}};
inline constexpr Row kTree{{6.8, 14, 8.4}, {0.6, 1.25, 4}, {5, 8.5, 14}};
// hwLatencies of NCCL_HW_PCI: steps inside a node over PCIe.
inline constexpr double kRingPci[3] = {1.0, 2.5, 5.7}, kTreePci[3] = {1.0, 1.9, 4.0};
inline constexpr double kTreeCorrection[3][24] = {
    {1.0, 1.0, 1.0, 1.0, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1.0, 1.0, 1.0, 1.0, 1.0},
    {1.0, 1.0, 1.0, 1.0, 1.0, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1.0, 1.0, 1.0},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};
// By generation, then 1, 2 and more nodes.
inline constexpr double kLlMax[4][3] = {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}, {282.0, 90.0, 70.0}};
inline constexpr double kRingLl128Max[4] = {20.0, 20.0, 36.7, 40.0};
inline constexpr double kTreeLl128Max[4][3] = {{20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 29.0}, {55.6, 31.67, 20.0}};
inline constexpr double kTreeMax[4][3] = {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70.0, 42.8, 24.0}};
inline constexpr double kNvlsTreeMax[4][3] = {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {0.0, 57.7, 45.5}, {0.0, 96.0, 80.0}};

/// What the search finds, GB/s a channel: channels, rings, trees inside and between nodes; heads, theirs inside and between.
struct Graphs {
  double channels, ring, tree_inside, tree_across;
  double heads = 1, head_inside = 0, head_across = 0;
};
// Worked out by hand from src/graph/search.cc, by generation, for 1, 2, 4 and 8 devices of a node (`node` has their links).
// Inside, Volta's links carry 120 (6 x 20 GB/s), Ampere's 240 (6 x 40, split), Hopper's 370.8 (6 x 60, split), Blackwell's 721.8
// (8 x 90, split); chains of trees need (n-1)/n of them, NVLS 1 + 1/heads of each head's rate.
inline constexpr Graphs kInside[4][4] = {{{}, {6, 20, 40, 40}, {6, 20, 20, 20}, {6, 20, 20, 20}},
                                  {{}, {12, 20, 40, 40}, {12, 20, 20, 20}, {12, 20, 20, 20}},
                                  {{}, {12, 30, 60, 60, 2, 60, 60}, {12, 30, 40, 40, 4, 60, 60}, {12, 30, 30, 30, 8, 40, 40}},
                                  {{}, {16, 45, 90, 90, 2, 90, 90}, {16, 45, 60, 60, 4, 90, 90}, {16, 45, 50, 50, 8, 80, 80}}};
// Between nodes a NIC of 12.5 GB/s takes a channel of 12, of 25 one of 24, of 50 one of 48 (split where there are 4 or fewer);
// eight of 48 are more than Hopper's links carry in rings, but not in trees.
inline constexpr Graphs kAcross[4][4] = {
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
    real_ = false;
    fill({graphs_.channels * graphs_.ring, graphs_.channels * (t_.nodes <= 2 ? graphs_.tree_inside : graphs_.tree_across),
          graphs_.channels * graphs_.tree_inside});
    if (t_.kind == kAllReduce) in_nodes();
    return std::move(times_);
  }
  /// The same at the task's rates, but for what the nodes' switches do.
  std::vector<Time> real() {
    real_ = true;
    const double once = bus(std::max(t_.inside_s, t_.across_s / 2));
    fill({bus(t_.ring_s()), t_.nodes <= 2 ? once : bus(t_.ring_s()), once});
    return std::move(times_);
  }

 private:
  static constexpr int kSimple = 2;

  void fill(const Bus& b) {
    for (int p = t_.only_simple ? kSimple : 0; p < 3; ++p) {
      if (p == 1 && t_.pcie) continue;  // typeIntra <= PATH_NVB
      ring(b.ring, p), tree(b.tree, p);
    }
    pat(b.tree);
    if (t_.kind == kAllReduce) in_network(b.collnet);
  }
  void offer(NcclAlgorithm algorithm, int p, double bandwidth, double latency) {
    times_.push_back({algorithm, static_cast<NcclProtocol>(p), latency + bytes_ / (1000 * bandwidth)});
  }
  /// Bus bandwidth in GB/s of a graph that takes `seconds` for the bytes that a ring sends.
  double bus(double seconds) const { return bytes_ * nsteps_ / n_ / seconds / 1e9; }
  double inter(double own, int p) const {
    const double network_s = real_ ? t_.network_latency_s : t_.reported_latency_s.value_or(t_.network_latency_s);
    return (t_.ranks == t_.nodes ? kTree.across[p] : own) + network_s * 1e6 * (p == kSimple ? 2 : 1);
  }
  double ll_max() const { return kLlMax[t_.nodes == 1 ? a_ : t_.processor == HostProcessor::amd ? 1 : 0][index2_]; }

  void ring(double bw, int p) {
    if (p == 0) bw = std::min(ll_max(), bw * .5);
    if (p == 1) bw = std::min(bw * .92, graphs_.channels * kRingLl128Max[a_]);
    const double overhead = t_.nodes == 1 ? 0 : (t_.processor == HostProcessor::amd ? 2.0 : 1.0) * (p == kSimple ? 3 : 1);
    const double steps_across = nodes_ == 1 ? 0 : t_.kind == kAllReduce ? 2 * (nodes_ - 1) : nodes_ - 1;
    double latency = kRing.base[p] + (nsteps_ - steps_across) * std::max((t_.pcie ? kRingPci : kRing.inside)[p], overhead) +
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
    if (!real_ && size_ >= 0 && size_ < 23) bw *= kTreeCorrection[p][size_];
    offer(NcclAlgorithm::tree, p, bw * .5,
          kTree.base[p] + 2 * ((ppn_ - 1) * (t_.pcie ? kTreePci : kTree.inside)[p] + log2i_ * inter(kTree.across[p], p)) +
              (real_ ? 1e6 * waited(p) : 0));
  }

  /// Seconds that the last byte is later for a pipeline's stages: two chains of a node's devices and the levels between nodes, up
  /// and down, simulated chunk by chunk over what a chunk of every channel takes on a device's links and on a node's NICs.
  double waited(int p) const {
    if (t_.bytes == 0) return 0;
    const double on_link[3] = {2, 128.0 / 120, 1}, whole = bytes_ / (bytes_ * nsteps_ / n_) * on_link[p];
    const double chunks = std::max(1.0, bytes_ / (2 * graphs_.channels * chunk(p)));
    const double inside = t_.inside_s * whole / chunks, across = t_.across_s * whole / chunks;
    std::vector<double> stages(static_cast<std::size_t>(2 * log2i_), across);
    stages.insert(stages.end(), static_cast<std::size_t>(2 * (ppn_ - 1)), inside);
    std::vector<double> done(stages.size());
    const int played = 5;
    for (int c = 0; c < played; ++c) {
      double ready = 0;
      for (std::size_t s = 0; s < stages.size(); ++s) ready = done[s] = std::max(ready, done[s]) + stages[s];
    }
    return done.back() - played * std::max(inside, across);
  }
  /// What calcCollChunking comes to, of buffers of 512 KiB (LL), 4,800 KiB (LL128) and 4 MiB.
  double chunk(int p) const {
    if (p == 0) return (1 << 19) / 8 / 2;
    if (p == kSimple) return static_cast<double>(t_.buffer / 8);
    std::int64_t size = 4800 * 1024 / 8 / 16 * 15;
    const std::int64_t part = t_.bytes / static_cast<std::int64_t>(2 * graphs_.channels);
    const double steps = 1 + log2i_ + 0.1 * ppn_;
    while (static_cast<double>(part / size) < steps * 64 / ppn_ && size > 131072) size /= 2;
    while (static_cast<double>(part / size) < steps * 16 / ppn_ && size > 32768) size /= 2;
    return static_cast<double>(size);
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
  bool real_ = false;
  std::vector<Time> times_;
};

}  // namespace tandem::sim::test
