#include "sim/nccl/nccl_search.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "sim/nccl/rccl.hpp"

namespace tandem::sim {
namespace {

constexpr std::int64_t kMostChannels = 32;  ///< most rings: half of NCCL's MAXCHANNELS
constexpr std::int64_t kMostHeads = 32;     ///< NCCL_MAX_NVLS_ARITY

// GB/s of a channel that the search tries, inside a node and between nodes.
constexpr std::array kInside{40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0};
constexpr std::array kAcross{48.0, 30.0, 28.0, 24.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0,
                             7.0,  6.0, 5.0, 4.0, 3.0, 2.4, 1.2, 0.24, 0.12};
constexpr std::array kInsideHopper{60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0};
constexpr std::array kAcrossHopper{48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5,
                                   15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12};
constexpr std::array kInsideBlackwell{90.0, 80.0, 70.0, 60.0, 50.0, 45.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0};
constexpr std::array kAcrossBlackwell{96.0, 86.0, 80.0, 48.0, 45.1, 42.0, 40.0, 30.0, 24.0, 22.0,
                                      20.0, 17.5, 15.0, 12.0, 6.0,  3.0,  2.4,  1.2,  0.24, 0.12};

std::span<const double> rates(NcclArchitecture a, bool across) {
  if (a == NcclArchitecture::hopper) return across ? std::span<const double>(kAcrossHopper) : kInsideHopper;
  if (a == NcclArchitecture::blackwell) return across ? std::span<const double>(kAcrossBlackwell) : kInsideBlackwell;
  return across ? std::span<const double>(kAcross) : kInside;
}

/// Ratio of the rate that NCCL counts for a link to its built rate. PCIe: 12 of 15.75 GB/s for 16 lanes of 8 GT/s (topo.cc).
/// NVLink: 20 of 25 GB/s, 20.6 of 25, 40.1 of 50 (src/graph/topo.h).
double counted(NcclArchitecture a, bool pcie) {
  if (pcie) return 12 / 15.75;
  return a == NcclArchitecture::hopper ? 20.6 / 25 : a == NcclArchitecture::blackwell ? 40.1 / 50 : 20.0 / 25;
}

/// How often `rate` fits into `whole`. NCCL rounds sums of rates to thousandths.
std::int64_t times(double whole, double rate) { return static_cast<std::int64_t>((whole + 1e-3) / rate); }

/// A node with its rates as NCCL counts them, GB/s.
struct Counted {
  NcclNode node;
  NcclArchitecture architecture;
  double links, nic;

  bool across() const { return node.nics > 0; }
  std::span<const double> rates() const { return sim::rates(architecture, across()); }
  double widest() const { return across() ? nic : links; }
  std::int64_t on_nics(double rate) const { return across() ? node.nics * times(nic, rate) : kMostChannels; }
  bool fits(double rate) const { return rate <= widest() + 1e-3; }
};

struct Rings {
  std::int64_t count = 0;
  double rate = 0;
};

/// Whether NCCL splits channels: those of 25 GB/s and more, but from Hopper on not if more than 4 have less than 50.
bool split(NcclArchitecture a, const Rings& c) {
  if (c.rate < 25) return false;
  return a < NcclArchitecture::hopper || c.rate >= 50 || c.count <= 4;
}

/// Every ring takes one channel's rate of each device's links and, between nodes, of one NIC.
Rings rings(const Counted& c) {
  Rings best;
  for (const double rate : c.rates()) {
    if (!c.fits(rate)) continue;
    if (best.count > 0 && rate / best.rate <= 0.49) break;
    const std::int64_t inside = c.node.ranks > 1 ? times(c.links, rate) : kMostChannels;
    const std::int64_t count = std::min({kMostChannels, inside, c.on_nics(rate)});
    if (static_cast<double>(count) * rate > static_cast<double>(best.count) * best.rate) best = {count, rate};
  }
  if (best.count == 0) return {1, 0.1};  // no path fits: one ring at a rate that loses against everything
  if (!split(c.architecture, best)) return best;
  const std::int64_t twice = std::min(2 * best.count, kMostChannels);
  return {twice, best.rate / static_cast<double>((twice + best.count - 1) / best.count)};
}

/// A tree's chain through a node leaves each device but the last: its links carry (n-1)/n of the channels.
bool chains_fit(const Counted& c, std::int64_t count, double rate) {
  const double n = static_cast<double>(c.node.ranks);
  return c.node.ranks == 1 || static_cast<double>(count) * rate * (n - 1) / n <= c.links + 1e-3;
}

void trees(const Counted& c, NcclGraphs& g) {
  double found = 0;
  const auto all = c.rates();
  for (const double rate : all)
    if (found == 0 && c.fits(rate) && chains_fit(c, g.channels, rate) && c.on_nics(rate) >= g.channels) found = rate;
  double inside = found > 0 ? found : g.ring;
  g.tree_across = inside;
  if (found == 0) return void(g.tree_inside = inside);
  for (auto rate = all.rbegin(); c.across() && rate != all.rend() && inside < 2 * g.tree_across; ++rate)
    if (*rate > inside) {
      if (!chains_fit(c, g.channels, *rate)) break;
      inside = *rate;
    }
  g.tree_inside = inside;
}

void heads(const Counted& c, NcclGraphs& g) {
  const std::int64_t wanted = std::min(c.node.ranks, kMostHeads);
  std::int64_t most = 0;
  for (const double rate : c.rates()) {
    if (!c.fits(rate)) continue;
    if (most > 0 && rate / g.head_inside <= 0.49) break;
    const std::int64_t count = std::min({wanted, times(c.links, rate) - 1, c.on_nics(rate)});
    if (count > most && (c.across() || count == wanted)) most = count, g.head_inside = rate;
  }
  if (most < 2) return void(g.head_inside = 0);
  g.heads = most, g.head_across = g.head_inside;
  const auto all = c.rates();
  for (auto rate = all.rbegin(); c.across() && rate != all.rend() && g.head_across < 2 * g.head_inside; ++rate)
    if (*rate > g.head_across && c.on_nics(*rate) >= most) g.head_across = *rate;
}

NcclGraphs in_bytes(NcclGraphs g) {
  for (double* rate : {&g.ring, &g.tree_inside, &g.tree_across, &g.head_inside, &g.head_across}) *rate *= 1e9;
  return g;
}

}  // namespace

NcclGraphs nccl_search(const NcclNode& node, NcclArchitecture architecture) {
  if (is_rccl(architecture)) return rccl_graphs(node, architecture);
  const Counted c{node, architecture, node.links * counted(architecture, node.pcie) / 1e9, node.nic / 1e9};
  NcclGraphs g;
  if (node.rings > 0) {
    g.channels = node.rings;
    g.ring = g.tree_inside = g.tree_across = c.links / static_cast<double>(node.rings);
    return in_bytes(g);
  }
  const Rings found = rings(c);
  g.channels = found.count, g.ring = found.rate;
  trees(c, g);
  if (architecture >= NcclArchitecture::hopper && !node.pcie) heads(c, g);
  return in_bytes(g);
}

}  // namespace tandem::sim
