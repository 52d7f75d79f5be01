#include "sim/network/chip_rings.hpp"

#include <algorithm>
#include <map>

namespace tandem::sim {
namespace {

constexpr std::size_t kNextChip = 3;  ///< links of a route to a core of a neighbouring chip: up, across, down
constexpr int kMostSteps = 20'000;    ///< of one search for a cycle; grids and tori of 256 chips take as many as they have chips

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
struct Way {
  std::size_t to;
  std::int32_t link;
};
using Ways = std::vector<std::vector<Way>>;  // by chip

Ways ways_between(const Topology& topology, const std::vector<DeviceId>& chips) {
  Ways out(chips.size());
  for (std::size_t from = 0; from < chips.size(); ++from)
    for (std::size_t to = 0; to < chips.size(); ++to)
      if (const auto route = topology.route(chips[from], chips[to]); route.size() == kNextChip) out[from].push_back({to, route[1]});
  return out;
}

/// The least number of ways of a chip.
std::size_t least(const Ways& ways) {
  return std::ranges::min_element(ways, {}, [](const auto& of) { return of.size(); })->size();
}

bool regular(const Ways& ways) {
  return std::ranges::all_of(ways, [&](const auto& of) { return of.size() == ways.front().size(); });
}

/// Searches a cycle through all chips, depth first. Tries neighbours with the fewest free neighbours first (Warnsdorff).
class CycleSearch {
 public:
  explicit CycleSearch(const Ways& ways) : ways_(ways), on_path_(ways.size()) {}

  /// The chips in the order of the cycle; empty if there is none, or none was found within kMostSteps.
  std::vector<std::size_t> run() {
    enter(0);
    return extend() ? path_ : std::vector<std::size_t>();
  }

 private:
  bool extend() {
    if (path_.size() == ways_.size()) return joins(path_.back(), path_.front());
    for (const std::size_t next : free_neighbours()) {
      if (++steps_ > kMostSteps) return false;
      enter(next);
      if (extend()) return true;
      on_path_[next] = false, path_.pop_back();
    }
    return false;
  }
  void enter(std::size_t chip) { on_path_[chip] = true, path_.push_back(chip); }
  bool joins(std::size_t a, std::size_t b) const {
    return std::ranges::any_of(ways_[a], [&](const Way& w) { return w.to == b; });
  }
  std::ptrdiff_t free_ways(std::size_t chip) const {
    return std::ranges::count_if(ways_[chip], [&](const Way& w) { return !on_path_[w.to]; });
  }
  std::vector<std::size_t> free_neighbours() const {
    std::vector<std::size_t> out;
    for (const Way& w : ways_[path_.back()])
      if (!on_path_[w.to]) out.push_back(w.to);
    std::ranges::stable_sort(out, {}, [&](std::size_t chip) { return free_ways(chip); });
    return out;
  }

  const Ways& ways_;
  std::vector<bool> on_path_;
  std::vector<std::size_t> path_;
  int steps_ = 0;
};

/// Moves the links between two chips, in both directions, out of `ways`.
void take(Ways& ways, std::size_t a, std::size_t b, Ways& taken) {
  for (const auto& [from, to] : {std::pair{a, b}, {b, a}}) {
    const auto at = std::ranges::find_if(ways[from], [target = to](const Way& w) { return w.to == target; });
    taken[from].push_back(*at);
    ways[from].erase(at);
  }
}

/// The links of cycles through all chips that share none, as many as are found.
Ways cycles_in(Ways ways) {
  Ways out(ways.size());
  for (std::size_t most = least(ways) / 2; most > 0; --most) {
    const std::vector<std::size_t> cycle = CycleSearch(ways).run();
    if (cycle.empty()) break;
    for (std::size_t i = 0; i < cycle.size(); ++i) take(ways, cycle[i], cycle[(i + 1) % cycle.size()], out);
  }
  return out;
}

/// The ways that rings use; none if there is no ring.
Ways used_ways(const Ways& all) {
  if (all.size() == 2) return all;  // the two directions of one link
  const Ways found = cycles_in(all);
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

  const Ways used = used_ways(ways_between(topology, chips));
  if (used.front().empty()) return {};
  ChipRings out;
  out.chips = static_cast<std::int64_t>(chips.size());
  out.ways = static_cast<std::int64_t>(used.front().size());
  for (const auto& of : used)
    for (const Way& way : of) {
      out.links.push_back(way.link);
      out.hop = std::max(out.hop, topology.link(way.link).latency);
    }
  return out;
}

}  // namespace tandem::sim
