#pragma once
// Devices, switches, chips and NICs as vertices, links as directed edges: a cluster before any routing. Only one node is
// stored as a graph. The links of a cluster are copies of a node's or the fabric's, found by their ids.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "topology/preset.hpp"
#include "topology/topology.hpp"

namespace tandem {

struct GraphEdge {
  std::int32_t from, to;
  Link link;
  std::string name;
};

/// Vertices 0 .. devices-1 are devices.
struct Graph {
  std::int32_t vertices = 0;
  std::int32_t devices = 0;
  bool devices_forward = false;     ///< a route may pass through a device (cube mesh)
  std::vector<GraphEdge> edges;

  std::int32_t add_vertex() { return vertices++; }
  void add_edge(std::int32_t from, std::int32_t to, Link link, std::string name) {
    edges.push_back({from, to, link, std::move(name)});
  }
};

/// Vertices of a NIC: one sends and one receives, so that no route turns round in it.
struct Nic {
  std::int32_t out, in;
};

/// One node with its NICs. Several NICs of one device count as one with the sum of their bandwidths.
struct NodeGraph {
  Graph graph;
  std::vector<Nic> nics;
  std::vector<std::int32_t> nic_of; ///< by device: index into `nics`; empty without NICs
};

/// `with_nics`: with the NICs, which only join nodes.
NodeGraph node_graph(const NodeFacts& node, bool with_nics);

/// Whether every device of a node has one link to and one from a common centre, and maybe two to its chip's, but none to a device.
bool is_star(const NodeFacts& node);
/// The edges from one device of a star to another. No search is needed: its cost would grow with the square of the devices.
std::vector<std::int32_t> star_path(const NodeFacts& node, std::int32_t from, std::int32_t to);

/// Latency of the first of two links that share a hop; the second has the rest.
Duration half(Duration hop);
/// Bandwidth of a NIC of the graph, which may stand for several of the node.
Bandwidth nic_bandwidth(const NodeFacts& node);

/// How a cluster numbers the links of `nodes` equal nodes and of the fabric between them.
struct ClusterLayout {
  std::int64_t nodes = 0, node_links = 0, nics = 0, leaves = 0, nodes_per_leaf = 1;
  bool rails = false;

  std::int64_t node_link(std::int64_t node, std::int64_t edge) const { return node * node_links + edge; }
  std::int64_t up(std::int64_t node, std::int64_t nic) const { return nodes * node_links + 2 * (node * nics + nic); }
  std::int64_t down(std::int64_t node, std::int64_t nic) const { return up(node, nic) + 1; }
  std::int64_t to_spine(std::int64_t leaf) const { return nodes * (node_links + 2 * nics) + 2 * leaf; }
  std::int64_t from_spine(std::int64_t leaf) const { return to_spine(leaf) + 1; }
  /// Leaf switch of a NIC: one for every NIC position (rail) of a group of nodes, or one for the whole group.
  std::int64_t leaf(std::int64_t node, std::int64_t nic) const {
    return rails ? node / nodes_per_leaf * nics + nic : node / nodes_per_leaf;
  }
  std::int64_t links() const { return to_spine(leaves); }
  /// By how much the id of `link` grows if every node's number grows by `nodes_per_leaf`.
  std::int64_t stride(std::int64_t link) const {
    if (link < up(0, 0)) return nodes_per_leaf * node_links;
    return link < to_spine(0) ? 2 * nodes_per_leaf * nics : 2 * (rails ? nics : 1);
  }
};

ClusterLayout cluster_layout(const ClusterFacts& facts, const NodeGraph& node, std::int64_t nodes);

/// Every link of a cluster. `node` and `layout` must outlive it.
class ClusterLinks {
 public:
  ClusterLinks(const ClusterFacts& facts, const NodeGraph& node, const ClusterLayout& layout);

  Link link(std::int64_t id) const;
  std::string name(std::int64_t id) const;

 private:
  const NodeGraph& node_;
  const ClusterLayout& layout_;
  Link up_, down_, spine_;  ///< spine: all cables between a leaf and the switches above it, each way
};

}  // namespace tandem
