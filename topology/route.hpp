#pragma once
// Routes over a graph. The only file that knows Boost.Graph is route.cpp.

#include <cstdint>
#include <memory>
#include <vector>

#include "topology/graph.hpp"

namespace tandem {

/// Paths as edge indices: fewest hops, then least latency, then the wider link. Devices forward only if the graph says so.
/// Thread-safe; the tree of a source is computed at its first use.
class Router {
 public:
  explicit Router(const Graph& graph);
  ~Router();
  /// Empty if `from` is `to`. Throws ContractError if there is no way.
  std::vector<std::int32_t> path(std::int32_t from, std::int32_t to) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Dimension-ordered paths of edges in a torus node: x first, then y, then z, the shorter way round, upwards on a tie. Index: first
/// device x devices of the node + last device; empty from a device to itself.
std::vector<std::vector<std::int32_t>> torus_paths(const NodeFacts& node, const Graph& graph);

/// Snake order of a torus node's devices: consecutive devices are neighbours in the torus. With an even number of rows (of planes,
/// if there are three dimensions) the ends are neighbours, too.
std::vector<std::int32_t> torus_ring(const NodeFacts& node);

}  // namespace tandem
