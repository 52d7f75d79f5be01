#include "sim/network/mesh_rings.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tandem::sim {
namespace {

constexpr int kSteps = 1 << 14;     ///< NCCL_SEARCH_TIMEOUT
constexpr int kMost = 32;           ///< NCCL's channels, two to a ring and its reverse

using Links = std::vector<std::int32_t>;

class RingSearch {
 public:
  RingSearch(const Topology& topology, const std::vector<Rank>& members, std::size_t most_links)
      : topology_(topology), n_(members.size()), ways_(n_ * n_), visited_(n_, false) {
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t j = 0; j < n_; ++j)
        if (i != j) lay_way(i, j, topology.device_of(members[i]), topology.device_of(members[j]), members, most_links);
    count_cables();
    count_most();
    path_ = {0};
    visited_[0] = true;
  }

  std::optional<MeshRings> run() {
    extend();
    if (best_ == 0) return {};
    MeshRings out;
    out.rings = static_cast<std::int64_t>(best_) * (n_ > 2 ? 2 : 1);
    out.links = best_links_;
    for (const Links& way : ways_) {
      Duration latency;
      for (const std::int32_t l : way) latency += link(l).latency;
      out.hop = std::max(out.hop, latency);
    }
    return out;
  }

 private:
  Link link(std::int32_t id) const { return topology_.link(id); }
  double built(std::int32_t id) const { return topology_.built(id).bytes_per_second(); }
  const Links& way(std::size_t i, std::size_t j) const { return ways_[i * n_ + j]; }

  /// Finds the way between two members. Only members may forward: the library does not see other devices.
  void lay_way(std::size_t i, std::size_t j, DeviceId from, DeviceId to, const std::vector<Rank>& members, std::size_t most_links) {
    Links direct = topology_.route(from, to);
    if (direct.size() == 1) ways_[i * n_ + j] = std::move(direct);
    else if (most_links > 1) ways_[i * n_ + j] = forwarded(from, to, members);
  }

  Links forwarded(DeviceId from, DeviceId to, const std::vector<Rank>& members) const {
    Links best;
    double widest = 0;
    for (const Rank r : members) {
      const DeviceId by = topology_.device_of(r);
      if (by == from || by == to) continue;
      const Links in = topology_.route(from, by), out = topology_.route(by, to);
      if (in.size() != 1 || out.size() != 1) continue;
      const double width = std::min(built(in[0]), built(out[0]));
      if (width > widest) best = {in[0], out[0]}, widest = width;
    }
    return best;
  }

  void count_cables() {
    const double cable = topology_.cable().bytes_per_second();
    for (const Links& way : ways_)
      for (const std::int32_t l : way) free_.emplace(l, std::max(1, static_cast<int>(built(l) / cable + 0.5)));
  }

  /// Limits the number of rings to the pairs of cables that every member has.
  void count_most() {
    for (std::size_t i = 0; i < n_; ++i) {
      std::map<std::int32_t, int> out;
      for (std::size_t j = 0; j < n_; ++j)
        if (!way(i, j).empty()) out[way(i, j).front()] = free_.at(way(i, j).front());
      int cables = 0;
      for (const auto& [l, count] : out) cables += count;
      most_ = std::min(most_, n_ > 2 ? std::min(cables, kMost) / 2 : cables);
    }
  }
  bool over() const { return best_ >= most_ || steps_ > kSteps; }

  int free_cables(std::size_t i, std::size_t j) const {
    int least = way(i, j).empty() ? 0 : kMost;
    for (const std::int32_t l : way(i, j)) least = std::min(least, free_.at(l));
    return least;
  }

  /// Takes a cable each way of every link between two members. Returns false, and takes nothing, if one is missing.
  bool take(std::size_t i, std::size_t j) {
    if (way(i, j).empty() || way(j, i).empty()) return false;
    for (const Links* links : {&way(i, j), &way(j, i)})
      for (const std::int32_t l : *links) --free_[l], used_.push_back(l);
    const auto taken = static_cast<std::ptrdiff_t>(way(i, j).size() + way(j, i).size());
    if (std::all_of(used_.end() - taken, used_.end(), [&](std::int32_t l) { return free_[l] >= 0; })) return true;
    give_back(i, j);
    return false;
  }

  void give_back(std::size_t i, std::size_t j) {
    for (std::size_t k = way(i, j).size() + way(j, i).size(); k > 0; --k) ++free_[used_.back()], used_.pop_back();
  }

  void extend() {
    ++steps_;
    if (over()) return;
    if (path_.size() == n_) return close();
    std::vector<std::size_t> next;
    for (std::size_t j = 0; j < n_; ++j)
      if (!visited_[j]) next.push_back(j);
    const std::size_t at = path_.back();
    const auto wider = [&](std::size_t a, std::size_t b) { return free_cables(at, a) > free_cables(at, b); };
    std::stable_sort(next.begin(), next.end(), wider);
    for (const std::size_t j : next) {
      if (!take(at, j)) continue;
      visited_[j] = true;
      path_.push_back(j);
      extend();
      path_.pop_back();
      visited_[j] = false;
      give_back(at, j);
    }
  }

  /// Closes the path to a ring by joining its ends; those of a pair are joined already.
  void close() {
    const bool pair = n_ == 2;
    if (!pair && !take(path_.back(), path_.front())) return;
    if (++found_ > best_) best_ = found_, best_links_ = used_;
    again();
    const std::vector<std::size_t> ring = std::exchange(path_, {0});
    std::vector<bool> visited(n_, false);
    visited[0] = true;
    std::swap(visited, visited_);
    extend();
    std::swap(visited, visited_);
    path_ = ring;
    --found_;
    if (!pair) give_back(path_.back(), path_.front());
  }

  /// Tries to take the same ring once more.
  void again() {
    ++steps_;
    if (over()) return;
    std::size_t taken = 1;
    while (taken < n_ && take(path_[taken - 1], path_[taken])) ++taken;
    if (taken == n_) close();
    for (; taken > 1; --taken) give_back(path_[taken - 2], path_[taken - 1]);
  }

  const Topology& topology_;
  std::size_t n_;
  std::vector<Links> ways_;              ///< from member to member
  std::map<std::int32_t, int> free_;     ///< free cables of a link
  std::vector<std::size_t> path_;        ///< members of the ring under construction
  std::vector<bool> visited_;
  Links used_, best_links_;
  int found_ = 0, best_ = 0, most_ = kMost, steps_ = 0;
};

bool in_one_mesh(const Topology& topology, const std::vector<Rank>& members) {
  if (topology.scale_up() != ScaleUp::cube_mesh || topology.ranks_per_device() > 1 || members.size() < 2) return false;
  return std::all_of(members.begin(), members.end(), [&](Rank r) {
    return topology.node_of(topology.device_of(r)) == topology.node_of(topology.device_of(members.front()));
  });
}

}  // namespace

std::optional<MeshRings> mesh_rings(const Topology& topology, const std::vector<Rank>& members) {
  if (!in_one_mesh(topology, members)) return {};
  for (const std::size_t most_links : {1, 2})
    if (const auto rings = RingSearch(topology, members, most_links).run()) return rings;
  return {};
}

std::optional<MeshRings> rings_of_nodes(const Topology& topology, const std::vector<Rank>& members) {
  if (topology.scale_up() != ScaleUp::cube_mesh) return {};
  std::map<std::int64_t, std::vector<Rank>> nodes;
  for (const Rank r : members) nodes[topology.node_of(topology.device_of(r))].push_back(r);
  const auto places = [&](const std::vector<Rank>& ranks) {
    std::vector<std::int64_t> out;
    for (const Rank r : ranks)
      out.push_back(static_cast<std::int64_t>(topology.device_of(r).index()) % topology.devices_per_node());
    return out;
  };
  const auto link = [&](const std::vector<Rank>& r) {
    return topology.route(topology.device_of(r[0]), topology.device_of(r[1])).front();
  };
  const std::vector<Rank>& first = nodes.begin()->second;
  const auto alike = [&](const auto& node) { return places(node.second) == places(first); };
  const auto rings = mesh_rings(topology, first);
  if (!rings || !std::all_of(nodes.begin(), nodes.end(), alike)) return {};
  MeshRings all = *rings;
  all.links.clear();
  for (const auto& [node, ranks] : nodes)  // links of each node have the first one's numbers plus a constant
    for (const std::int32_t l : rings->links) all.links.push_back(l + link(ranks) - link(first));
  return all;
}

}  // namespace tandem::sim
