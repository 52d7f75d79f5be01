#include "sim/network/chip_rings.hpp"

#include <algorithm>
#include <map>
#include <random>

namespace tandem::sim {
namespace {

constexpr std::size_t kNextChip = 3;  ///< links of a route to a core of a neighbouring chip: up, across, down
constexpr int kMostSteps = 20'000;    ///< of one search for a cycle; grids and tori of 500 chips take about a thousand

/// The first core of every chip; empty if some chip has a core that is no member.
std::vector<DeviceId> whole_chips(const Topology& topology, const std::vector<Rank>& members) {
  std::map<std::int64_t, std::int64_t> cores;
  for (const Rank r : members) ++cores[topology.device_of(r).value() / topology.cores_per_chip()];
  std::vector<DeviceId> chips;
  for (const auto& [chip, count] : cores) {
    if (count != topology.cores_per_chip()) return {};
    chips.push_back(DeviceId(static_cast<std::int32_t>(chip * topology.cores_per_chip())));
  }
  return chips;
}

/// A link to a neighbouring chip of the group, by the chip's place in it.
struct ChipLink {
  std::size_t to;
  std::int32_t link;
};
using ChipLinks = std::vector<std::vector<ChipLink>>;  // by chip

ChipLinks links_between(const Topology& topology, const std::vector<DeviceId>& chips) {
  ChipLinks out(chips.size());
  for (std::size_t from = 0; from < chips.size(); ++from)
    for (std::size_t to = 0; to < chips.size(); ++to)
      if (const auto route = topology.route(chips[from], chips[to]); route.size() == kNextChip) out[from].push_back({to, route[1]});
  return out;
}

/// The least number of links of a chip.
std::size_t least(const ChipLinks& links) {
  return std::ranges::min_element(links, {}, [](const auto& of) { return of.size(); })->size();
}

bool regular(const ChipLinks& links) {
  return std::ranges::all_of(links, [&](const auto& of) { return of.size() == links.front().size(); });
}

/// Searches a cycle through all chips by Posa's rotations (Discrete Mathematics 14, 1976): extends a path from the first chip while it
/// can, else turns the part behind a neighbour of its end round, which gives it another end. Draws are the same in every run.
class CycleSearch {
 public:
  explicit CycleSearch(const ChipLinks& links) : links_(links), place_(links.size()) { add(0); }

  /// The chips in the order of the cycle; empty if none was found within kMostSteps.
  std::vector<std::size_t> run() {
    for (int step = 0; step < kMostSteps; ++step) {
      if (path_.size() == links_.size() && joins(path_.back(), path_.front())) return path_;
      const std::vector<std::size_t> free = neighbours([&](std::size_t to) { return !place_[to]; });
      if (!free.empty()) {
        add(drawn(free));
        continue;
      }
      const std::vector<std::size_t> behind = neighbours([&](std::size_t to) { return *place_[to] + 2 < path_.size(); });
      if (behind.empty()) return {};
      turn(*place_[drawn(behind)] + 1);
    }
    return {};
  }

 private:
  void add(std::size_t chip) { place_[chip] = path_.size(), path_.push_back(chip); }
  void turn(std::size_t from) {
    std::reverse(path_.begin() + static_cast<std::ptrdiff_t>(from), path_.end());
    for (std::size_t i = from; i < path_.size(); ++i) place_[path_[i]] = i;
  }
  bool joins(std::size_t a, std::size_t b) const {
    return std::ranges::any_of(links_[a], [&](const ChipLink& w) { return w.to == b; });
  }
  /// The neighbours of the path's end that `wanted` holds for.
  template <class Wanted>
  std::vector<std::size_t> neighbours(Wanted wanted) const {
    std::vector<std::size_t> out;
    for (const ChipLink& w : links_[path_.back()])
      if (wanted(w.to)) out.push_back(w.to);
    return out;
  }
  std::size_t drawn(const std::vector<std::size_t>& from) { return from[draws_() % from.size()]; }

  const ChipLinks& links_;
  std::vector<std::optional<std::size_t>> place_;  ///< on the path, by chip
  std::vector<std::size_t> path_;
  std::minstd_rand draws_;
};

/// Moves the links between two chips, in both directions, out of `links`.
void take(ChipLinks& links, std::size_t a, std::size_t b, ChipLinks& taken) {
  for (const auto& [from, to] : {std::pair{a, b}, {b, a}}) {
    const auto at = std::ranges::find_if(links[from], [target = to](const ChipLink& w) { return w.to == target; });
    taken[from].push_back(*at);
    links[from].erase(at);
  }
}

/// The links of cycles through all chips that share none, as many as are found.
ChipLinks cycles_in(ChipLinks links) {
  ChipLinks out(links.size());
  for (std::size_t most = least(links) / 2; most > 0; --most) {
    const std::vector<std::size_t> cycle = CycleSearch(links).run();
    if (cycle.empty()) break;
    for (std::size_t i = 0; i < cycle.size(); ++i) take(links, cycle[i], cycle[(i + 1) % cycle.size()], out);
  }
  return out;
}

/// The links that rings use; none if there is no ring.
ChipLinks ring_links(const ChipLinks& all) {
  if (all.size() == 2) return all;  // the two directions of one link
  const ChipLinks found = cycles_in(all);
  const bool whole = !found.front().empty() && regular(all) && all.front().size() % 2 == 0;
  return whole ? all : found;
}

}  // namespace

std::optional<ChipRings> chip_rings(const Topology& topology, const std::vector<Rank>& members) {
  if (topology.cores_per_chip() == 0 || topology.ranks_per_device() > 1) return {};
  const std::vector<DeviceId> chips = whole_chips(topology, members);
  for (const DeviceId chip : chips)
    if (topology.node_of(chip) != topology.node_of(chips.front())) return {};
  if (chips.size() < 2) return {};

  const ChipLinks used = ring_links(links_between(topology, chips));
  if (used.front().empty()) return {};
  ChipRings out;
  out.chips = static_cast<std::int64_t>(chips.size());
  out.ways = static_cast<std::int64_t>(used.front().size());
  for (const auto& of : used)
    for (const ChipLink& chip_link : of) {
      out.links.push_back(chip_link.link);
      out.hop = std::max(out.hop, topology.link(chip_link.link).latency);
    }
  return out;
}

}  // namespace tandem::sim
