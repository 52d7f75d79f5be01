#include "topology/route.hpp"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/properties.hpp>
#include <boost/property_map/function_property_map.hpp>
#include <boost/range/iterator_range.hpp>
#include <limits>
#include <mutex>

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

/// Edge that leads to each vertex on the way from one source.
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

  /// A device that is not the source passes nothing on.
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

  /// Of several shortest ways into a vertex the widest link counts, then the first vertex it may come from: Dijkstra's own choice would
  /// depend on the order of its queue.
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
  std::vector<Tree> trees;  ///< by source, empty until asked for
};

Router::Router(const Graph& graph) : impl_(std::make_unique<Impl>(graph)) {}
Router::~Router() = default;

std::vector<std::int32_t> Router::path(std::int32_t from, std::int32_t to) const {
  const Tree& tree = impl_->tree(from);
  std::vector<std::int32_t> out;
  out.reserve(4);  // few are longer
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

/// Chips from `from` to `to`, both included: x first.
std::vector<std::int64_t> chips_between(const NodeFacts& node, std::int64_t from, std::int64_t to) {
  const std::int64_t width = node.shape[0];
  std::int64_t x = from % width, y = from / width;
  std::vector<std::int64_t> chips{from};
  while (x != to % width) chips.push_back((x = step_towards(x, to % width, width)) + width * y);
  while (y != to / width) chips.push_back(x + width * (y = step_towards(y, to / width, node.shape[1])));
  return chips;
}

std::int32_t edge_between(const Graph& graph, std::int64_t from, std::int64_t to) {
  const auto found = std::find_if(graph.edges.begin(), graph.edges.end(),
                                  [&](const GraphEdge& e) { return e.from == from && e.to == to; });
  require(found != graph.edges.end(), "neighbours of a torus are not joined");
  return static_cast<std::int32_t>(found - graph.edges.begin());
}

}  // namespace

std::vector<std::int32_t> torus_path(const NodeFacts& node, const Graph& graph, std::int32_t from, std::int32_t to) {
  if (from == to) return {};
  std::vector<std::int64_t> vertices{from};
  for (std::int64_t chip : chips_between(node, from / node.cores_per_chip, to / node.cores_per_chip))
    vertices.push_back(graph.devices + chip);
  vertices.push_back(to);
  std::vector<std::int32_t> path;
  for (std::size_t i = 0; i + 1 < vertices.size(); ++i)
    path.push_back(edge_between(graph, vertices[i], vertices[i + 1]));
  return path;
}

std::vector<std::int32_t> torus_ring(const NodeFacts& node) {
  std::vector<std::int32_t> order;
  for (std::int64_t y = 0; y < node.shape[1]; ++y)
    for (std::int64_t i = 0; i < node.shape[0]; ++i) {
      const std::int64_t x = y % 2 == 0 ? i : node.shape[0] - 1 - i;
      for (std::int64_t core = 0; core < node.cores_per_chip; ++core)
        order.push_back(static_cast<std::int32_t>((x + node.shape[0] * y) * node.cores_per_chip + core));
    }
  return order;
}

}  // namespace tandem
