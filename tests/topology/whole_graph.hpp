#pragma once
// A whole cluster written out: every device, switch, NIC and link. What a topology says of its links, and its routes, are compared with it.

#include <string>

#include "topology/graph.hpp"
#include "topology/overrides.hpp"

namespace tandem::test {

inline std::string in_node(std::int64_t node, const std::string& name) { return "node " + std::to_string(node) + ": " + name; }

/// Vertex of a node's vertex in the whole cluster: all devices first.
inline std::int32_t global_vertex(const NodeGraph& node, const ClusterLayout& layout, std::int64_t n, std::int32_t vertex) {
  const std::int64_t d = node.graph.devices;
  if (vertex < d) return static_cast<std::int32_t>(n * d + vertex);
  return static_cast<std::int32_t>(layout.nodes * d + n * (node.graph.vertices - d) + vertex - d);
}

inline void add_nodes(Graph& g, const NodeGraph& node, const ClusterLayout& layout) {
  for (std::int64_t n = 0; n < layout.nodes; ++n)
    for (const GraphEdge& e : node.graph.edges)
      g.add_edge(global_vertex(node, layout, n, e.from), global_vertex(node, layout, n, e.to),
                 e.link, in_node(n, e.name));
}

inline void add_uplinks(Graph& g, const ClusterFacts& facts, const NodeGraph& node, const ClusterLayout& layout) {
  const Bandwidth bandwidth = nic_bandwidth(facts.node);
  for (std::int64_t n = 0; n < layout.nodes; ++n)
    for (std::int64_t i = 0; i < layout.nics; ++i) {
      const auto [send, receive] = node.nics[static_cast<std::size_t>(i)];
      const auto leaf = static_cast<std::int32_t>(g.vertices - 1 - layout.leaves + layout.leaf(n, i));
      const std::string name = "NIC " + std::to_string(i);
      g.add_edge(global_vertex(node, layout, n, send), leaf, {bandwidth, half(facts.node.nic_latency)}, in_node(n, name + " to leaf"));
      g.add_edge(leaf, global_vertex(node, layout, n, receive), {bandwidth, facts.node.nic_latency - half(facts.node.nic_latency)},
                 in_node(n, "leaf to " + name));
    }
}

/// All cables between a leaf and the switches above it as one link each way: what comes in from its NICs over the
/// oversubscription.
inline void add_spine(Graph& g, const ClusterFacts& facts, const ClusterLayout& layout) {
  const auto ports = static_cast<double>(layout.nodes_per_leaf * (layout.rails ? 1 : layout.nics));
  const Bandwidth bandwidth = nic_bandwidth(facts.node) * (ports / facts.fabric.oversubscription);
  const std::int32_t spine = g.vertices - 1;
  for (std::int64_t l = 0; l < layout.leaves; ++l) {
    const auto leaf = static_cast<std::int32_t>(spine - layout.leaves + l);
    const std::string name = "leaf " + std::to_string(l);
    g.add_edge(leaf, spine, {bandwidth, facts.fabric.switch_latency}, name + " to spine");
    g.add_edge(spine, leaf, {bandwidth, facts.fabric.switch_latency}, "spine to " + name);
  }
}

/// Edges in the order of `layout`, devices node by node.
inline Graph cluster_graph(const ClusterFacts& facts, const NodeGraph& node, const ClusterLayout& layout) {
  Graph g;
  g.devices = static_cast<std::int32_t>(layout.nodes * node.graph.devices);
  g.devices_forward = node.graph.devices_forward;
  g.vertices = static_cast<std::int32_t>(layout.nodes * node.graph.vertices);
  g.edges.reserve(static_cast<std::size_t>(layout.to_spine(layout.leaves)));
  add_nodes(g, node, layout);
  if (layout.nics == 0) return g;
  g.vertices += static_cast<std::int32_t>(layout.leaves + 1);
  add_uplinks(g, facts, node, layout);
  add_spine(g, facts, layout);
  return g;
}

/// The same cluster as one graph in which any shortest path can be searched.
struct Whole {
  explicit Whole(const ClusterSpec& spec) : facts(load_cluster(spec.preset)) {
    apply_overrides(spec, facts);
    const std::int64_t nodes = (spec.devices + facts.node.devices - 1) / facts.node.devices;
    const NodeGraph node = node_graph(facts.node, nodes > 1);
    graph = cluster_graph(facts, node, cluster_layout(facts, node, nodes));
  }
  ClusterFacts facts;
  Graph graph;
};

}  // namespace tandem::test
