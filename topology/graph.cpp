#include "topology/graph.hpp"

#include <algorithm>

#include "models/base/error.hpp"

namespace tandem {
namespace {

/// Whether the cores of a chip have links beside those to the switch.
bool joins_chips(const NodeFacts& node) { return node.kind == ScaleUp::crossbar && node.core_port.bytes_per_second() > 0; }

/// Joins every device to one switch (or one memory), with half of the hop's latency on each link. `star_path` relies on the order.
void add_star(Graph& g, const NodeFacts& node, const std::string& centre_name) {
  const std::int32_t centre = g.add_vertex();
  for (std::int32_t d = 0; d < g.devices; ++d) {
    const std::string device = "device " + std::to_string(d);
    g.add_edge(d, centre, {node.link, half(node.hop)}, device + " to " + centre_name);
    g.add_edge(centre, d, {node.link, node.hop - half(node.hop)}, centre_name + " to " + device);
  }
}

/// Joins the cores of each chip of a star beside the switch, with the hop's latency. `star_path` relies on the order.
void add_chips(Graph& g, const NodeFacts& node) {
  const std::int32_t first = g.vertices;
  for (std::int64_t c = 0; c < node.devices; c += node.cores_per_chip) g.add_vertex();
  for (std::int32_t d = 0; d < g.devices; ++d) {
    const auto chip = static_cast<std::int32_t>(first + d / node.cores_per_chip);
    g.add_edge(d, chip, {node.core_port, half(node.hop)}, "core " + std::to_string(d) + " to chip");
    g.add_edge(chip, d, {node.core_port, node.hop - half(node.hop)}, "chip to core " + std::to_string(d));
  }
}

void add_pair(Graph& g, std::int32_t i, std::int32_t j, Link link) {
  g.add_edge(i, j, link, "device " + std::to_string(i) + " to device " + std::to_string(j));
}

void add_full_mesh(Graph& g, const NodeFacts& node) {
  for (std::int32_t i = 0; i < g.devices; ++i)
    for (std::int32_t j = 0; j < g.devices; ++j)
      if (i != j) add_pair(g, i, j, {node.link, node.hop});
}

/// Adds as many links between two devices as the matrix says.
void add_cube_mesh(Graph& g, const NodeFacts& node) {
  g.devices_forward = true;
  for (std::int32_t i = 0; i < g.devices; ++i)
    for (std::int32_t j = 0; j < g.devices; ++j)
      if (const int links = node.matrix[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)]; links > 0)
        add_pair(g, i, j, {node.link * links, node.hop});
}

/// Adds a chip's links to its neighbours in one dimension. If this has two chips, both ways lead to the same one and are one link.
void add_chip_links(Graph& g, const NodeFacts& node, NodeFacts::ChipPlace at, std::size_t dimension) {
  const std::int64_t size = node.shape[dimension], here = at[dimension], from = node.chip(at);
  for (const std::int64_t step : {std::int64_t{1}, size - 1}) {
    if (size == 1) return;
    at[dimension] = (here + step) % size;
    const std::int64_t to = node.chip(at);
    g.add_edge(static_cast<std::int32_t>(g.devices + from), static_cast<std::int32_t>(g.devices + to),
               {dimension == 2 ? node.z_link : node.link, node.hop}, "chip " + std::to_string(from) + " to chip " + std::to_string(to));
    if (size == 2) return;
  }
}

/// The rate between a core and its chip. A chip of one core has no such port: as much as all its links and NICs together.
Bandwidth port_of(const NodeFacts& node) {
  if (node.core_port.bytes_per_second() > 0) return node.core_port;
  double all = static_cast<double>(node.nics) * node.nic.bytes_per_second() + node.host_link.bytes_per_second();
  for (std::size_t d = 0; d < node.shape.size(); ++d) {
    const auto neighbours = static_cast<double>(std::min<std::int64_t>(2, node.shape[d] - 1));
    all += neighbours * (d == 2 ? node.z_link : node.link).bytes_per_second();
  }
  return Bandwidth::bytes_per_second(all);
}

void add_torus(Graph& g, const NodeFacts& node) {
  const std::int64_t chips = node.shape[0] * node.shape[1] * node.shape[2];
  const Bandwidth port = port_of(node);
  for (std::int64_t c = 0; c < chips; ++c) g.add_vertex();
  for (std::int32_t d = 0; d < g.devices; ++d) {
    const auto chip = static_cast<std::int32_t>(g.devices + d / node.cores_per_chip);
    g.add_edge(d, chip, {port, Duration{}}, "core " + std::to_string(d) + " to chip");
    g.add_edge(chip, d, {port, Duration{}}, "chip to core " + std::to_string(d));
  }
  for (std::int64_t c = 0; c < chips; ++c)
    for (std::size_t dimension = 0; dimension < 3; ++dimension) add_chip_links(g, node, node.place(c), dimension);
}

void add_scale_up(Graph& g, const NodeFacts& node) {
  switch (node.kind) {
    case ScaleUp::crossbar:
      add_star(g, node, "switch");
      if (joins_chips(node)) add_chips(g, node);
      return;
    case ScaleUp::shared_memory: return add_star(g, node, "memory");
    case ScaleUp::pcie: return add_star(g, node, "host bridge");
    case ScaleUp::full_mesh: return add_full_mesh(g, node);
    case ScaleUp::cube_mesh: return add_cube_mesh(g, node);
    case ScaleUp::torus: return add_torus(g, node);
  }
  throw ContractError("unknown kind of node");
}

/// The vertex that is joined to a device's NIC: its chip in a torus, else the device.
std::int32_t exit_of(const NodeGraph& n, const NodeFacts& node, std::int32_t device) {
  return node.kind == ScaleUp::torus ? static_cast<std::int32_t>(n.graph.devices + device / node.cores_per_chip) : device;
}

/// Number of NICs in the graph: a device's NICs count as one, and a device never uses two.
std::int64_t nic_vertices(const NodeFacts& node) { return std::min(node.nics, node.devices); }

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
    n.graph.add_edge(exit, send, {attach, Duration{}}, device + " to " + name);
    n.graph.add_edge(receive, exit, {attach, Duration{}}, name + " to " + device);
  }
}

}  // namespace

Duration half(Duration d) { return Duration::picoseconds(d.ps() / 2); }

Bandwidth nic_bandwidth(const NodeFacts& node) {
  return node.nic * (static_cast<double>(node.nics) / static_cast<double>(nic_vertices(node)));
}

NodeGraph node_graph(const NodeFacts& node, bool with_nics) {
  NodeGraph n;
  n.graph.vertices = n.graph.devices = static_cast<std::int32_t>(node.devices);
  add_scale_up(n.graph, node);
  if (with_nics) add_nics(n, node);
  return n;
}

bool is_star(const NodeFacts& node) {
  return node.kind == ScaleUp::crossbar || node.kind == ScaleUp::shared_memory || node.kind == ScaleUp::pcie;
}

std::vector<std::int32_t> star_path(const NodeFacts& node, std::int32_t from, std::int32_t to) {
  const bool one_chip = joins_chips(node) && from / node.cores_per_chip == to / node.cores_per_chip;
  const auto first = static_cast<std::int32_t>(one_chip ? 2 * node.devices : 0);  // the chips' links stand behind the switch's
  return {first + 2 * from, first + 2 * to + 1};
}

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

/// The bandwidth out of a leaf is the sum of its NICs' bandwidths divided by the oversubscription.
ClusterLinks::ClusterLinks(const ClusterFacts& facts, const NodeGraph& node, const ClusterLayout& layout)
    : node_(node), layout_(layout) {
  if (layout.nics == 0) return;
  const Bandwidth nic = nic_bandwidth(facts.node);
  const auto ports = static_cast<double>(layout.nodes_per_leaf * (layout.rails ? 1 : layout.nics));
  up_ = {nic, half(facts.node.nic_latency)};
  down_ = {nic, facts.node.nic_latency - up_.latency};
  spine_ = {nic * (ports / facts.fabric.oversubscription), facts.fabric.switch_latency};
}

Link ClusterLinks::link(std::int64_t id) const {
  const std::int64_t first_up = layout_.up(0, 0);
  if (id < first_up) return node_.graph.edges[static_cast<std::size_t>(id % layout_.node_links)].link;
  if (id >= layout_.to_spine(0)) return spine_;
  return (id - first_up) % 2 == 0 ? up_ : down_;
}

std::string ClusterLinks::name(std::int64_t id) const {
  const auto in_node = [](std::int64_t node, const std::string& name) { return "node " + std::to_string(node) + ": " + name; };
  const std::int64_t first_up = layout_.up(0, 0), first_leaf = layout_.to_spine(0);
  if (id < first_up)
    return in_node(id / layout_.node_links, node_.graph.edges[static_cast<std::size_t>(id % layout_.node_links)].name);
  if (id >= first_leaf) {
    const std::string leaf = "leaf " + std::to_string((id - first_leaf) / 2);
    return (id - first_leaf) % 2 == 0 ? leaf + " to spine" : "spine to " + leaf;
  }
  const std::string nic = "NIC " + std::to_string((id - first_up) / 2 % layout_.nics);
  return in_node((id - first_up) / 2 / layout_.nics, (id - first_up) % 2 == 0 ? nic + " to leaf" : "leaf to " + nic);
}

}  // namespace tandem
