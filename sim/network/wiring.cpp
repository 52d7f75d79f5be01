#include "sim/network/wiring.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/network/laying.hpp"

namespace tandem::sim {
namespace {

/// Divisible by every sharing degree up to 16, so that equal shares are exact.
constexpr Rate kCoreRate = 720'720'000'000;

constexpr std::int32_t kNoWire = -1;

/// Processors stand behind the topology's links, nodes behind the processors.
std::size_t node_link(const Topology& topology, DeviceId d) {
  return topology.links().size() + static_cast<std::size_t>(topology.devices() + topology.node_of(d));
}

/// Which messages each stage sends (or joins in) and receives, by port.
struct Needs {
  explicit Needs(const Catalogue& c) : by_port(2 * c.ports.size()) {}
  std::vector<std::vector<std::uint32_t>> by_port;  ///< 2 * port + receiver: ascending messages
};

Needs needs_of(const Catalogue& catalogue, const std::vector<std::uint32_t>& templates) {
  Needs needs(catalogue);
  for (const std::uint32_t t : templates)
    for (std::uint32_t slot = catalogue.first_slot[t]; slot < catalogue.first_slot[t + 1]; ++slot) {
      const auto& entry = catalogue.entries[slot];
      if (entry.message < 0) continue;
      const auto message = static_cast<std::uint32_t>(entry.message);
      needs.by_port[2 * catalogue.messages[message].port + entry.receiver].push_back(message);
    }
  for (auto& list : needs.by_port) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return needs;
}

class Wirer {
 public:
  Wirer(const Scene& scene, const Catalogue& catalogue, Wiring& out) : scene_(scene), catalogue_(catalogue), out_(out) {
    for (const auto& templates : catalogue.templates) needs_.push_back(needs_of(catalogue, templates));
    const auto world = static_cast<std::size_t>(scene.mesh.world_size());
    out_.wire_of.assign(2 * catalogue.ports.size(), std::vector<std::int32_t>(world, kNoWire));
    stages_.reserve(world);
    for (std::int32_t r = 0; r < scene.mesh.world_size(); ++r) stages_.push_back(scene.stage_of(Rank(r)).index());
  }

  void wire_all() {
    for (std::uint32_t p = 0; p < catalogue_.ports.size(); ++p)
      if (catalogue_.ports[p].kind != Port::Kind::core)
        for (std::int32_t r = 0; r < scene_.mesh.world_size(); ++r) plug_in(p, Rank(r));
  }

  void wire_cores() {
    out_.shared_cores = true;
    const auto devices = static_cast<std::size_t>(scene_.topology.devices());
    const auto nodes = (devices - 1) / static_cast<std::size_t>(scene_.topology.devices_per_node()) + 1;
    out_.links.insert(out_.links.end(), devices, {kCoreRate, {}});
    out_.links.insert(out_.links.end(), nodes, {kCoreRate, node_capacity()});
    for (std::int32_t r = 0; r < scene_.mesh.world_size(); ++r) {
      const DeviceId d = scene_.topology.device_of(Rank(r));
      Wire wire{catalogue_.core_port, {Rank(r)}, false, {}, {}};
      wire.uses.push_back({{static_cast<std::uint32_t>(core_link(scene_.topology, d)), 1},
                           {static_cast<std::uint32_t>(node_link(scene_.topology, d)), 1}});
      connect(2 * catalogue_.core_port, Rank(r));
      out_.wires.push_back(std::move(wire));
    }
  }

 private:
  /// Computing ranks of a node together: so many processors, each slowed down by the others' use of memory.
  std::vector<Rate> node_capacity() const {
    std::vector<Rate> by_users;
    const std::int64_t cores = std::min(scene_.topology.devices_per_node(), scene_.topology.devices());
    for (std::int64_t k = 1; k <= cores; ++k)
      by_users.push_back(std::llround(static_cast<double>(k * kCoreRate) / scene_.cost.slowdown(k)));
    return by_users;
  }

  void connect(std::size_t end, Rank r) { out_.wire_of[end][r.index()] = static_cast<std::int32_t>(out_.wires.size()); }

  void plug_in(std::uint32_t p, Rank r) {
    const Port& port = catalogue_.ports[p];
    if (out_.wire_of[2 * p][r.index()] != kNoWire || needs_[stages_[r.index()]].by_port[2 * p].empty()) return;
    Wire wire;
    wire.port = p;
    if (port.kind == Port::Kind::collective) {
      wire.members = scene_.mesh.members(port.group, r);
      for (const Rank member : wire.members) connect(2 * p, member);
    } else {
      wire.members = {r, scene_.mesh.stage_neighbour(r, port.offset)};
      wire.directed = true;
      connect(2 * p, r);
      connect(2 * p + 1, wire.members[1]);
    }
    Laying laying(scene_, wire, out_.links);
    for (const std::uint32_t m : messages(p, wire)) wire.recipes.push_back(laying.lay(m, catalogue_.messages[m]));
    out_.wires.push_back(std::move(wire));
  }

  /// What any member sends over the wire.
  std::vector<std::uint32_t> messages(std::uint32_t p, const Wire& wire) const {
    const std::size_t first = stages_[wire.members[0].index()];
    const auto other_stage = [&](Rank r) { return stages_[r.index()] != first; };
    const auto other = std::find_if(wire.members.begin(), wire.members.end(), other_stage);
    if (other == wire.members.end() || catalogue_.ports[p].kind == Port::Kind::send) return needs_[first].by_port[2 * p];
    std::set<std::uint32_t> all;
    for (const Rank r : wire.members) {
      const auto& list = needs_[stages_[r.index()]].by_port[2 * p];
      all.insert(list.begin(), list.end());
    }
    return {all.begin(), all.end()};
  }

  const Scene& scene_;
  const Catalogue& catalogue_;
  Wiring& out_;
  std::vector<Needs> needs_;
  std::vector<std::size_t> stages_;
};

bool cores_are_shared(const Scene& scene) {
  const std::int64_t cores = std::min(scene.topology.devices_per_node(), scene.topology.devices());
  return scene.topology.ranks_per_device() > 1 || scene.cost.slowdown(cores) > 1;
}

}  // namespace

Work core_work(Duration alone) { return static_cast<Work>(alone.ps()) * kCoreRate; }

std::vector<Capacity> capacities(const Topology& topology) {
  std::vector<Capacity> links;
  for (const Link& link : topology.links()) links.push_back({rate_of(link.bandwidth), {}});
  return links;
}

Wire lay_alone(const Scene& scene, const Message& message, std::vector<Rank> members, const std::vector<Capacity>& links) {
  Wire wire{message.port, std::move(members), std::holds_alternative<Send>(message.op), {}, {}};
  wire.recipes.push_back(Laying(scene, wire, links).lay(0, message));
  return wire;
}

Wiring make_wiring(const Scene& scene, const Catalogue& catalogue) {
  Wiring out;
  out.links = capacities(scene.topology);
  Wirer wirer(scene, catalogue, out);
  if (cores_are_shared(scene)) wirer.wire_cores();
  wirer.wire_all();
  return out;
}

}  // namespace tandem::sim
