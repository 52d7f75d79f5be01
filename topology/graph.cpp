#include "topology/graph.hpp"

#include <algorithm>

#include "models/base/error.hpp"

namespace tandem {
namespace {

Duration half(Duration d) { return Duration::picoseconds(d.ps() / 2); }
Duration rest(Duration d) { return d - half(d); }

/// Every device on one switch (or one memory): half of the hop's latency on each link. `star_path` knows the edges' order.
void add_star(Graph& g, const NodeFacts& node, const std::string& centre_name) {
  const std::int32_t centre = g.add_vertex();
  for (std::int32_t d = 0; d < g.devices; ++d) {
    const std::string device = "device " + std::to_string(d);
    g.add_edge(d, centre, {device + " to " + centre_name, node.link, half(node.hop)});
    g.add_edge(centre, d, {centre_name + " to " + device, node.link, rest(node.hop)});
  }
}

void add_pair(Graph& g, std::int32_t i, std::int32_t j, Link link) {
  link.name = "device " + std::to_string(i) + " to device " + std::to_string(j);
  g.add_edge(i, j, std::move(link));
}

void add_full_mesh(Graph& g, const NodeFacts& node) {
  for (std::int32_t i = 0; i < g.devices; ++i)
    for (std::int32_t j = 0; j < g.devices; ++j)
      if (i != j) add_pair(g, i, j, {"", node.link, node.hop});
}

/// As many links between two devices as the matrix says.
void add_cube_mesh(Graph& g, const NodeFacts& node) {
  g.devices_forward = true;
  for (std::int32_t i = 0; i < g.devices; ++i)
    for (std::int32_t j = 0; j < g.devices; ++j)
      if (const int links = node.matrix[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)]; links > 0)
        add_pair(g, i, j, {"", node.link * links, node.hop});
}

/// Links of a chip to its neighbours in one dimension; in one of two both ways lead to the same chip and are one link.
void add_chip_links(Graph& g, const NodeFacts& node, NodeFacts::ChipPlace at, std::size_t dimension) {
  const std::int64_t size = node.shape[dimension], here = at[dimension], from = node.chip(at);
  for (const std::int64_t step : {std::int64_t{1}, size - 1}) {
    if (size == 1) return;
    at[dimension] = (here + step) % size;
    const std::int64_t to = node.chip(at);
    g.add_edge(static_cast<std::int32_t>(g.devices + from), static_cast<std::int32_t>(g.devices + to),
               {"chip " + std::to_string(from) + " to chip " + std::to_string(to), dimension == 2 ? node.z_link : node.link, node.hop});
    if (size == 2) return;
  }
}

void add_torus(Graph& g, const NodeFacts& node) {
  const std::int64_t chips = node.shape[0] * node.shape[1] * node.shape[2];
  for (std::int64_t c = 0; c < chips; ++c) g.add_vertex();
  for (std::int32_t d = 0; d < g.devices; ++d) {
    const auto chip = static_cast<std::int32_t>(g.devices + d / node.cores_per_chip);
    g.add_edge(d, chip, {"core " + std::to_string(d) + " to chip", node.core_port, Duration{}});
    g.add_edge(chip, d, {"chip to core " + std::to_string(d), node.core_port, Duration{}});
  }
  for (std::int64_t c = 0; c < chips; ++c)
    for (std::size_t dimension = 0; dimension < 3; ++dimension) add_chip_links(g, node, node.place(c), dimension);
}

void add_scale_up(Graph& g, const NodeFacts& node) {
  switch (node.kind) {
    case ScaleUp::crossbar: return add_star(g, node, "switch");
    case ScaleUp::shared_memory: return add_star(g, node, "memory");
    case ScaleUp::full_mesh: return add_full_mesh(g, node);
    case ScaleUp::cube_mesh: return add_cube_mesh(g, node);
    case ScaleUp::torus: return add_torus(g, node);
  }
  throw ContractError("unknown kind of node");
}

/// Where a device's traffic leaves the node from: its chip in a torus, else itself.
std::int32_t exit_of(const NodeGraph& n, const NodeFacts& node, std::int32_t device) {
  return node.kind == ScaleUp::torus ? static_cast<std::int32_t>(n.graph.devices + device / node.cores_per_chip) : device;
}

/// NICs that act as one: those of one device are joined, and a device never uses two.
std::int64_t nic_vertices(const NodeFacts& node) { return std::min(node.nics, node.devices); }

Bandwidth nic_bandwidth(const NodeFacts& node) {
  return node.nic * (static_cast<double>(node.nics) / static_cast<double>(nic_vertices(node)));
}

bool joined(const Graph& g, std::int32_t from, std::int32_t to) {
  return std::any_of(g.edges.begin(), g.edges.end(), [&](const GraphEdge& e) { return e.from == from && e.to == to; });
}

void add_nics(NodeGraph& n, const NodeFacts& node) {
  const std::int64_t count = nic_vertices(node);
  const bool own_ports = node.kind == ScaleUp::full_mesh;  // no bus between a device and the network
  const Bandwidth attach = node.host_link.bytes_per_second() > 0 && !own_ports ? node.host_link : nic_bandwidth(node);
  for (std::int64_t i = 0; i < count; ++i) n.nics.push_back({n.graph.add_vertex(), n.graph.add_vertex()});
  for (std::int32_t d = 0; d < n.graph.devices; ++d) {
    const auto nic = static_cast<std::int32_t>(d * count / n.graph.devices);
    const auto [send, receive] = n.nics[static_cast<std::size_t>(nic)];
    const std::int32_t exit = exit_of(n, node, d);
    n.nic_of.push_back(nic);
    if (joined(n.graph, exit, send)) continue;
    const std::string device = "device " + std::to_string(d), name = "NIC " + std::to_string(nic);
    n.graph.add_edge(exit, send, {device + " to " + name, attach, Duration{}});
    n.graph.add_edge(receive, exit, {name + " to " + device, attach, Duration{}});
  }
}

std::string in_node(std::int64_t node, const std::string& name) { return "node " + std::to_string(node) + ": " + name; }

/// Vertex of a node's vertex in the whole cluster: all devices first.
std::int32_t global_vertex(const NodeGraph& node, const ClusterLayout& layout, std::int64_t n, std::int32_t vertex) {
  const std::int64_t d = node.graph.devices;
  if (vertex < d) return static_cast<std::int32_t>(n * d + vertex);
  return static_cast<std::int32_t>(layout.nodes * d + n * (node.graph.vertices - d) + vertex - d);
}

void add_nodes(Graph& g, const NodeGraph& node, const ClusterLayout& layout) {
  for (std::int64_t n = 0; n < layout.nodes; ++n)
    for (const GraphEdge& e : node.graph.edges)
      g.add_edge(global_vertex(node, layout, n, e.from), global_vertex(node, layout, n, e.to),
                 {in_node(n, e.link.name), e.link.bandwidth, e.link.latency});
}

void add_uplinks(Graph& g, const ClusterFacts& facts, const NodeGraph& node, const ClusterLayout& layout) {
  const Bandwidth bandwidth = nic_bandwidth(facts.node);
  for (std::int64_t n = 0; n < layout.nodes; ++n)
    for (std::int64_t i = 0; i < layout.nics; ++i) {
      const auto [send, receive] = node.nics[static_cast<std::size_t>(i)];
      const auto leaf = static_cast<std::int32_t>(g.vertices - 1 - layout.leaves + layout.leaf(n, i));
      const std::string name = "NIC " + std::to_string(i);
      g.add_edge(global_vertex(node, layout, n, send), leaf, {in_node(n, name + " to leaf"), bandwidth, half(facts.node.nic_latency)});
      g.add_edge(leaf, global_vertex(node, layout, n, receive), {in_node(n, "leaf to " + name), bandwidth, rest(facts.node.nic_latency)});
    }
}

/// All cables between a leaf and the switches above it as one link each way: what comes in from its NICs over the
/// oversubscription.
void add_spine(Graph& g, const ClusterFacts& facts, const ClusterLayout& layout) {
  const auto ports = static_cast<double>(layout.nodes_per_leaf * (layout.rails ? 1 : layout.nics));
  const Bandwidth bandwidth = nic_bandwidth(facts.node) * (ports / facts.fabric.oversubscription);
  const std::int32_t spine = g.vertices - 1;
  for (std::int64_t l = 0; l < layout.leaves; ++l) {
    const auto leaf = static_cast<std::int32_t>(spine - layout.leaves + l);
    const std::string name = "leaf " + std::to_string(l);
    g.add_edge(leaf, spine, {name + " to spine", bandwidth, facts.fabric.switch_latency});
    g.add_edge(spine, leaf, {"spine to " + name, bandwidth, facts.fabric.switch_latency});
  }
}

}  // namespace

NodeGraph node_graph(const NodeFacts& node, bool with_nics) {
  NodeGraph n;
  n.graph.vertices = n.graph.devices = static_cast<std::int32_t>(node.devices);
  add_scale_up(n.graph, node);
  if (with_nics) add_nics(n, node);
  return n;
}

bool is_star(const NodeFacts& node) { return node.kind == ScaleUp::crossbar || node.kind == ScaleUp::shared_memory; }

std::vector<std::int32_t> star_path(std::int32_t from, std::int32_t to) { return {2 * from, 2 * to + 1}; }

ClusterLayout cluster_layout(const ClusterFacts& facts, const NodeGraph& node, std::int64_t nodes) {
  ClusterLayout layout;
  layout.nodes = nodes;
  layout.node_links = static_cast<std::int64_t>(node.graph.edges.size());
  layout.nics = static_cast<std::int64_t>(node.nics.size());
  layout.rails = facts.node.rails;
  layout.nodes_per_leaf = facts.fabric.nodes_per_leaf;
  if (layout.nics > 0) layout.leaves = layout.leaf(nodes - 1, layout.nics - 1) + 1;
  return layout;
}

Graph cluster_graph(const ClusterFacts& facts, const NodeGraph& node, const ClusterLayout& layout) {
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

}  // namespace tandem
