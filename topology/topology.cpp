#include "topology/topology.hpp"

#include <algorithm>
#include <numeric>

#include "models/base/error.hpp"
#include "topology/graph.hpp"
#include "topology/overrides.hpp"
#include "topology/route.hpp"

namespace tandem {
namespace {

/// Equal nodes under a tree of leaf switches. Routes inside a node come from one node's graph. A route between nodes is
/// put together from two such routes and the links NIC, leaf, (spine, leaf,) NIC.
class ClusterTopology final : public Topology {
 public:
  ClusterTopology(ClusterFacts facts, const ClusterSpec& cluster)
      : facts_(std::move(facts)), devices_(cluster.devices), ranks_per_device_(cluster.ranks_per_device),
        threads_per_rank_(facts_.device.synchronous ? cluster.threads_per_rank : 1),
        algorithms_(cluster.override.algorithms),
        nodes_((devices_ + facts_.node.devices - 1) / facts_.node.devices), node_(node_graph(facts_.node, nodes_ > 1)),
        layout_(cluster_layout(facts_, node_, nodes_)), links_(facts_, node_, layout_), router_(node_.graph),
        ring_(make_ring()) {
    if (facts_.node.kind == ScaleUp::torus) torus_ = torus_paths(facts_.node, node_.graph);
  }

  const Device& device() const override { return facts_.device; }
  ScaleUp scale_up() const override { return facts_.node.kind; }
  std::int64_t devices() const override { return devices_; }
  std::int64_t devices_per_node() const override { return facts_.node.devices; }
  std::int64_t ranks_per_device() const override { return ranks_per_device_; }
  std::int64_t threads_per_rank() const override { return threads_per_rank_; }
  DeviceId device_of(Rank r) const override {
    return DeviceId(static_cast<std::int32_t>(r.value() / ranks_per_device_));
  }
  std::int32_t link_count() const override { return static_cast<std::int32_t>(layout_.links()); }
  Link link(std::int32_t id) const override { return links_.link(id); }
  std::string link_name(std::int32_t id) const override { return links_.name(id); }
  std::int64_t period() const override { return layout_.nodes_per_leaf * facts_.node.devices; }
  std::int32_t stride(std::int32_t link) const override { return static_cast<std::int32_t>(layout_.stride(link)); }
  const std::vector<std::int32_t>& ring_order() const override { return ring_; }
  std::int64_t cores_per_chip() const override { return facts_.node.kind == ScaleUp::torus ? facts_.node.cores_per_chip : 0; }
  Bandwidth cable() const override { return facts_.node.kind == ScaleUp::cube_mesh ? facts_.node.link : Bandwidth(); }
  std::int64_t devices_per_nic() const override {
    return nodes_ > 1 && facts_.node.nics > 0 ? std::max<std::int64_t>(1, facts_.node.devices / facts_.node.nics) : 1;
  }
  std::optional<Algorithm> algorithm(CollectiveKind k) const override {
    switch (k) {
      case CollectiveKind::all_reduce: return algorithms_.all_reduce;
      case CollectiveKind::all_gather: return algorithms_.all_gather;
      case CollectiveKind::reduce_scatter: return algorithms_.reduce_scatter;
      case CollectiveKind::all_to_all: return algorithms_.all_to_all;
      case CollectiveKind::broadcast:
      case CollectiveKind::shift: break;
    }
    return std::nullopt;
  }
  HostProcessor host_processor() const override { return facts_.node.host_processor; }
  bool network_reduces() const override { return facts_.fabric.reduces; }
  std::optional<double> network_share() const override { return facts_.fabric.share; }
  std::optional<double> link_share() const override { return facts_.node.link_share; }
  NcclSettings nccl_settings() const override { return facts_.node.nccl; }
  const std::vector<std::string>& unverified() const override { return facts_.unverified; }

  std::vector<std::int32_t> route(DeviceId from, DeviceId to) const override {
    require(from.value() >= 0 && from.value() < devices_ && to.value() >= 0 && to.value() < devices_,
            "a route is between devices of the topology");
    if (from == to) return {};
    std::vector<std::int32_t> out;
    out.reserve(8);  // enough for most routes between nodes
    if (node_of(from) == node_of(to))
      append(out, node_of(from), inside(local(from), local(to)));
    else
      between(out, from, to);
    return out;
  }

 private:
  std::int32_t local(DeviceId d) const { return static_cast<std::int32_t>(d.value() % facts_.node.devices); }
  std::int32_t nic(DeviceId d) const { return node_.nic_of[static_cast<std::size_t>(local(d))]; }
  const Nic& vertices(DeviceId d) const { return node_.nics[static_cast<std::size_t>(nic(d))]; }

  std::vector<std::int32_t> inside(std::int32_t from, std::int32_t to) const {
    if (is_star(facts_.node)) return star_path(facts_.node, from, to);
    return torus_.empty() ? router_.path(from, to) : torus_[static_cast<std::size_t>(from * facts_.node.devices + to)];
  }

  void append(std::vector<std::int32_t>& out, std::int64_t node, const std::vector<std::int32_t>& edges) const {
    for (std::int32_t e : edges) out.push_back(static_cast<std::int32_t>(layout_.node_link(node, e)));
  }

  void between(std::vector<std::int32_t>& out, DeviceId from, DeviceId to) const {
    const std::int64_t leaf = layout_.leaf(node_of(from), nic(from)), last = layout_.leaf(node_of(to), nic(to));
    append(out, node_of(from), router_.path(local(from), vertices(from).out));
    out.push_back(static_cast<std::int32_t>(layout_.up(node_of(from), nic(from))));
    if (leaf != last) {
      out.push_back(static_cast<std::int32_t>(layout_.to_spine(leaf)));
      out.push_back(static_cast<std::int32_t>(layout_.from_spine(last)));
    }
    out.push_back(static_cast<std::int32_t>(layout_.down(node_of(to), nic(to))));
    append(out, node_of(to), router_.path(vertices(to).in, local(to)));
  }

  std::vector<std::int32_t> make_ring() const {
    if (facts_.node.kind == ScaleUp::torus) return torus_ring(facts_.node);
    if (facts_.node.kind == ScaleUp::cube_mesh) return facts_.node.ring;
    std::vector<std::int32_t> order(static_cast<std::size_t>(facts_.node.devices));
    std::iota(order.begin(), order.end(), 0);
    return order;
  }

  ClusterFacts facts_;
  std::int64_t devices_, ranks_per_device_, threads_per_rank_;
  CollectiveAlgorithms algorithms_;
  std::int64_t nodes_;
  NodeGraph node_;
  ClusterLayout layout_;
  ClusterLinks links_;
  Router router_;
  std::vector<std::int32_t> ring_;
  std::vector<std::vector<std::int32_t>> torus_;  ///< by from x devices + to; empty in other nodes
};

constexpr std::int64_t kMostDevices = 1 << 20;  // ids and links stay well inside 32 bits

void check_size(const ClusterSpec& cluster, const ClusterFacts& facts) {
  const std::int64_t nodes = (cluster.devices + facts.node.devices - 1) / facts.node.devices;
  const std::int64_t most = facts.fabric.max_nodes > 0 ? facts.fabric.max_nodes * facts.node.devices : kMostDevices;
  if (facts.fabric.max_nodes > 0 ? nodes <= facts.fabric.max_nodes : cluster.devices <= kMostDevices) return;
  throw InfeasibleError(Problem{"", "cluster.devices", std::to_string(cluster.devices),
                                "\"" + cluster.preset + "\" holds at most " + std::to_string(most) + " devices",
                                "use fewer devices or another preset"});
}

}  // namespace

std::shared_ptr<const Topology> make_topology(const ClusterSpec& cluster, const std::string& cost_table) {
  require(cluster.devices > 0 && cluster.ranks_per_device > 0, "a cluster has devices and ranks");
  ClusterFacts facts = load_cluster(cluster.preset);
  apply_overrides(cluster, facts);
  if (!cost_table.empty()) facts.device.cost_table = cost_table;
  check_size(cluster, facts);
  return std::make_shared<ClusterTopology>(std::move(facts), cluster);
}

GroupShape shape_of(const Topology& topology, const std::vector<Rank>& members) {
  const std::vector<std::int32_t>& ring = topology.ring_order();
  std::vector<std::int32_t> place(ring.size());
  for (std::size_t i = 0; i < ring.size(); ++i)
    place[static_cast<std::size_t>(ring[i])] = static_cast<std::int32_t>(i);
  GroupShape shape;
  std::vector<std::pair<std::int64_t, std::int32_t>> position;
  for (Rank r : members) {
    const DeviceId d = topology.device_of(r);
    shape.node.push_back(static_cast<std::int32_t>(topology.node_of(d)));
    const std::int64_t local = d.value() % topology.devices_per_node();
    position.push_back({topology.node_of(d) * topology.devices_per_node() + place[static_cast<std::size_t>(local)],
                        static_cast<std::int32_t>(position.size())});
  }
  std::sort(position.begin(), position.end());
  for (const auto& p : position) shape.ring.push_back(p.second);
  return shape;
}

}  // namespace tandem
