#pragma once
// Routes over a graph. The only file that knows Boost.Graph is route.cpp.

#include <cstdint>
#include <memory>
#include <vector>

#include "topology/graph.hpp"

namespace tandem {

/// Paths as edge indices: fewest hops, then least latency, then the wider link. Devices forward only where the graph says so.
/// Thread-safe; the tree of a source is computed when it is first asked for.
class Router {
 public:
  explicit Router(const Graph& graph);
  ~Router();
  /// Empty when `from` is `to`. Throws ContractError when there is no way.
  std::vector<std::int32_t> path(std::int32_t from, std::int32_t to) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Dimension-ordered paths in a torus node, of edges: x first, then y, then z, the shorter way round, upwards where both are equal. By
/// first device x devices of the node + last; empty from a device to itself.
std::vector<std::vector<std::int32_t>> torus_paths(const NodeFacts& node, const Graph& graph);

/// Snake order of a torus node's devices, so that neighbours in it are neighbours in the torus and, with an even number of rows (of
/// planes, where there are three dimensions), the ends meet.
std::vector<std::int32_t> torus_ring(const NodeFacts& node);

}  // namespace tandem
