#include "topology/route.hpp"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/properties.hpp>
#include <boost/property_map/function_property_map.hpp>
#include <boost/range/iterator_range.hpp>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "models/base/error.hpp"

namespace tandem {
namespace {

struct EdgeData {
  std::int64_t weight = 0;
  std::int32_t index = 0;
};
using BoostGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, EdgeData>;
using BoostEdge = boost::graph_traits<BoostGraph>::edge_descriptor;

constexpr std::int64_t kHop = std::int64_t{1} << 40;      // above any sum of latencies in picoseconds
constexpr std::int64_t kForward = std::int64_t{1} << 50;  // above any sum of hops
constexpr std::int64_t kUnreached = std::numeric_limits<std::int64_t>::max();
constexpr std::int32_t kNone = -1;

/// By vertex: the edge that leads to it from one source.
using Tree = std::vector<std::int32_t>;

}  // namespace

struct Router::Impl {
  explicit Impl(const Graph& g)
      : graph(g), boost(static_cast<std::size_t>(g.vertices)), trees(static_cast<std::size_t>(g.vertices)) {
    for (std::size_t i = 0; i < g.edges.size(); ++i) {
      const GraphEdge& e = g.edges[i];
      const EdgeData data{kHop + e.link.latency.ps(), static_cast<std::int32_t>(i)};
      boost::add_edge(static_cast<std::size_t>(e.from), static_cast<std::size_t>(e.to), data, boost);
    }
  }

  /// Weight of an edge on ways from `source`. Forwarding through a device costs kForward, more than any other way.
  std::int64_t weight(const BoostEdge& e, std::int32_t source) const {
    const auto from = static_cast<std::int32_t>(boost::source(e, boost));
    const bool forwards = !graph.devices_forward && from < graph.devices && from != source;
    return boost[e].weight + (forwards ? kForward : 0);
  }

  std::vector<std::int64_t> distances(std::int32_t source) const {
    std::vector<std::int64_t> out(trees.size());
    const auto weights = boost::make_function_property_map<BoostEdge>([&](const BoostEdge& e) { return weight(e, source); });
    boost::dijkstra_shortest_paths(
        boost, static_cast<std::size_t>(source),
        boost::weight_map(weights)
            .distance_map(boost::make_iterator_property_map(out.begin(), boost::get(boost::vertex_index, boost)))
            .distance_inf(kUnreached)
            .distance_zero(std::int64_t{0}));
    return out;
  }

  bool wider(std::int32_t a, std::int32_t b) const {
    const auto bandwidth = [&](std::int32_t e) { return graph.edges[static_cast<std::size_t>(e)].link.bandwidth; };
    return b == kNone || bandwidth(a) > bandwidth(b);
  }

  /// Chooses among several shortest ways into a vertex the widest link, then the first vertex it may come from. Dijkstra's own
  /// choice would depend on the order of its queue.
  Tree grow(std::int32_t source) const {
    const std::vector<std::int64_t> distance = distances(source);
    Tree tree(trees.size(), kNone);
    for (const BoostEdge& e : boost::make_iterator_range(boost::edges(boost))) {
      const std::size_t from = boost::source(e, boost), to = boost::target(e, boost);
      if (distance[from] == kUnreached || distance[from] + weight(e, source) != distance[to]) continue;
      if (wider(boost[e].index, tree[to])) tree[to] = boost[e].index;
    }
    return tree;
  }

  const Tree& tree(std::int32_t source) {
    const std::scoped_lock lock(mutex);
    Tree& t = trees[static_cast<std::size_t>(source)];
    if (t.empty()) t = grow(source);
    return t;
  }

  Graph graph;
  BoostGraph boost;
  std::mutex mutex;
  std::vector<Tree> trees;  ///< by source, empty until needed
};

Router::Router(const Graph& graph) : impl_(std::make_unique<Impl>(graph)) {}
Router::~Router() = default;

std::vector<std::int32_t> Router::path(std::int32_t from, std::int32_t to) const {
  const Tree& tree = impl_->tree(from);
  std::vector<std::int32_t> out;
  out.reserve(4);  // few paths are longer
  for (std::int32_t at = to; at != from;) {
    const std::int32_t edge = tree[static_cast<std::size_t>(at)];
    require(edge != kNone, "two vertices of a topology are not joined");
    out.push_back(edge);
    at = impl_->graph.edges[static_cast<std::size_t>(edge)].from;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

namespace {

/// One step along a ring of `size` from `at` towards `to`, the shorter way, upwards on a tie.
std::int64_t step_towards(std::int64_t at, std::int64_t to, std::int64_t size) {
  const std::int64_t up = (to - at + size) % size;
  return 2 * up <= size ? (at + 1) % size : (at + size - 1) % size;
}

/// Chips from `from` to `to`, both included.
std::vector<std::int64_t> chips_between(const NodeFacts& node, std::int64_t from, std::int64_t to) {
  NodeFacts::ChipPlace at = node.place(from);
  const NodeFacts::ChipPlace end = node.place(to);
  std::vector<std::int64_t> chips{from};
  for (std::size_t d = 0; d < at.size(); ++d)
    while (at[d] != end[d]) {
      at[d] = step_towards(at[d], end[d], node.shape[d]);
      chips.push_back(node.chip(at));
    }
  return chips;
}

/// Edges by their two vertices.
class Edges {
 public:
  explicit Edges(const Graph& graph) {
    for (std::size_t e = 0; e < graph.edges.size(); ++e)
      index_.try_emplace({graph.edges[e].from, graph.edges[e].to}, static_cast<std::int32_t>(e));
  }
  std::int32_t between(std::int64_t from, std::int64_t to) const {
    const auto found = index_.find({from, to});
    require(found != index_.end(), "neighbours of a torus are not joined");
    return found->second;
  }

 private:
  std::map<std::pair<std::int64_t, std::int64_t>, std::int32_t> index_;
};

std::vector<std::int32_t> torus_path(const NodeFacts& node, const Edges& edges, std::int64_t from, std::int64_t to) {
  if (from == to) return {};
  std::vector<std::int32_t> path;
  std::int64_t at = from;
  const auto go = [&](std::int64_t next) { path.push_back(edges.between(std::exchange(at, next), next)); };
  for (const std::int64_t chip : chips_between(node, from / node.cores_per_chip, to / node.cores_per_chip)) go(node.devices + chip);
  go(to);
  return path;
}

/// Positions of a plane, row by row, every other row backwards.
std::vector<NodeFacts::ChipPlace> snake(const NodeFacts& node, std::int64_t z) {
  std::vector<NodeFacts::ChipPlace> out;
  for (std::int64_t y = 0; y < node.shape[1]; ++y)
    for (std::int64_t i = 0; i < node.shape[0]; ++i) out.push_back({y % 2 == 0 ? i : node.shape[0] - 1 - i, y, z});
  return out;
}

}  // namespace

std::vector<std::vector<std::int32_t>> torus_paths(const NodeFacts& node, const Graph& graph) {
  const Edges edges(graph);
  std::vector<std::vector<std::int32_t>> out;
  for (std::int64_t a = 0; a < node.devices; ++a)
    for (std::int64_t b = 0; b < node.devices; ++b) out.push_back(torus_path(node, edges, a, b));
  return out;
}

std::vector<std::int32_t> torus_ring(const NodeFacts& node) {
  std::vector<std::int32_t> order;
  for (std::int64_t z = 0; z < node.shape[2]; ++z) {
    std::vector<NodeFacts::ChipPlace> plane = snake(node, z);
    if (z % 2 != 0) std::reverse(plane.begin(), plane.end());
    for (const NodeFacts::ChipPlace& at : plane)
      for (std::int64_t core = 0; core < node.cores_per_chip; ++core)
        order.push_back(static_cast<std::int32_t>(node.chip(at) * node.cores_per_chip + core));
  }
  return order;
}

}  // namespace tandem
