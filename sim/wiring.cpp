#include "sim/wiring.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "models/collective.hpp"
#include "sim/chip_rings.hpp"
#include "sim/mesh_rings.hpp"

namespace tandem::sim {
namespace {

/// Divisible by every sharing degree up to 16, so that equal shares are exact.
constexpr Rate kCoreRate = 720'720'000'000;

constexpr std::int32_t kNoWire = -1;

constexpr double kSwitches = 2e-6;  ///< seconds that switches on a route may take; the library's model has them

/// Processors stand behind the topology's links, nodes behind the processors.
std::size_t core_link(const Topology& topology, DeviceId d) { return topology.links().size() + d.index(); }
std::size_t node_link(const Topology& topology, DeviceId d) {
  return topology.links().size() + static_cast<std::size_t>(topology.devices() + topology.node_of(d));
}

/// Flows of a phase on the links they cross, shared by all messages of a wire that use the same flows.
struct Footprint {
  std::vector<Flow> flows;
  std::uint32_t uses = 0;
  bool across = false;  ///< some flow leaves its node
  Duration latency;     ///< of the longest route
};

/// Lays one wire's messages over the links.
class Layer {
 public:
  Layer(const Scene& scene, Wire& wire, const std::vector<Capacity>& links)
      : scene_(scene), wire_(wire), links_(links), fit_(scene.cost.comm_fit()) {}

  Recipe lay(std::uint32_t id, const Message& message) {
    const Op op = replayed(message);
    Recipe recipe;
    recipe.message = id;
    const auto ranks = static_cast<std::int64_t>(wire_.members.size());
    if (ranks < 2) return recipe;
    rows_.reset();
    if (message.tmpl >= 0 && std::get<Collective>(op).kind == CollectiveKind::all_to_all)
      rows_ = scene_.replay->exchanged(static_cast<std::size_t>(message.tmpl), op, wire_.members);
    if (const auto measured = scene_.cost.communication(rows_ ? rows_->even(op) : op, ranks)) {
      if (hosts_carry())
        carry(recipe, *measured);
      else
        recipe.tail = *measured;
      return recipe;
    }
    recipe.tail = fit_.overhead;
    const auto* collective = std::get_if<Collective>(&op);
    if (collective == nullptr || !by_ring(*collective) || !go_round(recipe, *collective)) {
      const Expansion expansion = expansion_of(op);
      for (const CommPhase& phase : expansion.phases) add(recipe, phase, expansion.pipelined);
    }
    if (collective != nullptr) {
      if (fit_.nccl && by_ring(*collective)) tune(recipe, *collective);
      if (collective->chunked) expose(recipe, fit_.chunked_exposed);
    }
    return recipe;
  }

 private:
  /// A gather or a scatter of replayed rows is one of as many in equal shares.
  Op replayed(const Message& message) const {
    if (message.tmpl < 0) return message.op;
    return scene_.replay->timed(wire_.members.front(), static_cast<std::size_t>(message.tmpl), message.op);
  }
  Expansion expansion_of(const Op& op) {
    if (const auto* send = std::get_if<Send>(&op))
      return {{CommPhase{1, bytes_of(send->dtype, send->elements), {{0, 1}}, Tier::any}}, false};
    const auto& collective = std::get<Collective>(op);
    if (shape_.node.empty()) shape_ = shape_of(scene_.topology, wire_.members);
    const Choice choice = choose_algorithm(scene_.topology.scale_up(), collective, shape_);
    return expand(collective, choice.algorithm, shape_, choice.inside);
  }

  /// Ranks that share a processor move bytes with it: whoever else computes there slows them down, and they him.
  bool hosts_carry() const { return scene_.topology.device().synchronous && scene_.topology.ranks_per_device() > 1; }

  /// Work on the members' processors that takes `measured` when they have them to themselves, as in the measurement.
  void carry(Recipe& recipe, Duration measured) {
    if (!cores_) cores_ = use_cores();
    std::int32_t most = 1;
    for (const LinkUse& use : wire_.uses[*cores_]) most = std::max(most, use.flows);
    recipe.chains[0].push_back({*cores_, core_work(measured) / most});
  }

  std::uint32_t use_cores() {
    std::vector<std::int32_t> cores;
    for (const Rank r : wire_.members)
      cores.push_back(static_cast<std::int32_t>(core_link(scene_.topology, scene_.topology.device_of(r))));
    wire_.uses.push_back(counted(cores));
    return static_cast<std::uint32_t>(wire_.uses.size() - 1);
  }

  void add(Recipe& recipe, const CommPhase& phase, bool pipelined) {
    const Footprint& print = footprint(phase.flows);
    recipe.tail += phase.steps * print.latency;
    if (wire_.uses[print.uses].empty()) return;
    auto& chain = recipe.chains[pipelined && print.across ? 1 : 0];
    const Work work = work_of(loaded(rows_ ? uneven(phase, print) : phase.bytes, phase.steps, print.across));
    if (!chain.empty() && chain.back().uses == print.uses)
      chain.back().work += work;
    else
      chain.push_back({print.uses, work});
  }

  /// Several rings at once over all links between whole chips of a torus or devices of a cube mesh.
  struct Circuit {
    std::int64_t stations = 0, ways = 0;
    std::vector<std::int32_t> links;  ///< once for each way that crosses it
    Duration hop;
  };

  std::optional<Circuit> circuit() const {
    if (auto chips = chip_rings(scene_.topology, wire_.members))
      return Circuit{chips->chips, chips->ways, std::move(chips->links), chips->hop};
    if (!fit_.nccl) return {};
    if (auto mesh = mesh_rings(scene_.topology, wire_.members))
      return Circuit{static_cast<std::int64_t>(wire_.members.size()), mesh->rings, std::move(mesh->links), mesh->hop};
    return {};
  }

  /// A piece of 1/stations goes round, each way out of a station taking its share of it.
  bool go_round(Recipe& recipe, const Collective& c) {
    if (!circuit_known_) circuit_ = circuit();
    circuit_known_ = true;
    if (!circuit_) return false;
    const std::int64_t steps = (c.kind == CollectiveKind::all_reduce ? 2 : 1) * (circuit_->stations - 1);
    const std::int64_t parts = circuit_->stations * circuit_->ways;
    const Bytes piece((bytes_of(c.dtype, c.elements).count() + parts - 1) / parts);
    if (!round_) {
      std::vector<std::int32_t> links = circuit_->links;
      wire_.uses.push_back(counted(links));
      round_ = static_cast<std::uint32_t>(wire_.uses.size() - 1);
    }
    recipe.tail += steps * circuit_->hop;
    recipe.chains[0].push_back({*round_, work_of(loaded(piece, steps, false))});
    return true;
  }

  static bool by_ring(const Collective& c) {
    return c.kind == CollectiveKind::all_reduce || c.kind == CollectiveKind::all_gather ||
           c.kind == CollectiveKind::reduce_scatter;
  }

  /// The library's choice: its latencies in place of the links', and the rate of its algorithm and protocol.
  void tune(Recipe& recipe, const Collective& c) {
    if (nodes_ == 0) nodes_ = count_nodes();
    NcclTask task;
    task.kind = c.kind;
    task.ranks = static_cast<std::int64_t>(wire_.members.size());
    task.nodes = nodes_;
    task.bytes = bytes_of(c.dtype, c.elements).count();
    (nodes_ == 1 ? task.inside_s : task.across_s) = alone(recipe.chains[0]);
    if (!recipe.chains[1].empty()) task.inside_s = alone(recipe.chains[0]), task.across_s = alone(recipe.chains[1]);
    task.network_latency_s = network_latency();
    task.in_switch_share = fit_.in_switch_share;
    if (fit_.ring_copy) task.last_copy_s = (Bytes(task.bytes / task.ranks) / *fit_.ring_copy).seconds();
    const NcclChoice choice = nccl_choice(task, *fit_.nccl);
    recipe.tail = fit_.overhead + Duration::seconds(choice.latency_s);
    for (auto& chain : recipe.chains)
      for (Segment& s : chain) s.work = static_cast<Work>(static_cast<double>(s.work) / choice.rate);
  }

  std::int64_t count_nodes() const {
    std::set<std::int64_t> nodes;
    for (const Rank r : wire_.members) nodes.insert(scene_.topology.node_of(scene_.topology.device_of(r)));
    return static_cast<std::int64_t>(nodes.size());
  }

  double alone(const std::vector<Segment>& chain) const { return time_alone({chain, {}}, wire_.uses, links_).seconds(); }

  /// Of the slowest route between nodes, beyond what the library's own model has for a step; switches apart.
  double network_latency() const {
    Duration most;
    for (const Footprint& print : prints_)
      if (print.across) most = std::max(most, print.latency);
    const double beyond = most.seconds() - kNcclStepAcross;
    return beyond > kSwitches ? beyond : 0;
  }

  /// What of a communication is not hidden behind the product that runs beside it.
  static void expose(Recipe& recipe, double share) {
    const auto part = [share](std::int64_t whole) { return std::llround(static_cast<double>(whole) * share); };
    recipe.tail = Duration::picoseconds(part(recipe.tail.ps()));
    for (auto& chain : recipe.chains)
      for (Segment& s : chain) s.work = static_cast<Work>(static_cast<double>(s.work) * share);
  }

  /// Where devices share NICs, groups that have some of a node's devices, but several, choose theirs without knowing of the others.
  double across_share() const {
    if (scene_.topology.devices_per_nic() == 1 || shape_.node.empty()) return fit_.across_share;
    const std::int64_t here = std::count(shape_.node.begin(), shape_.node.end(), shape_.node.front());
    const bool some = here > 1 && here < scene_.topology.devices_per_node();
    return fit_.across_share * (some ? fit_.shared_nic_share : 1);
  }

  /// Bytes as the links see them: a library that reaches a share of a link's rate occupies it for longer.
  Bytes loaded(Bytes of_flow, std::int64_t steps, bool across) const {
    const double share = across ? across_share() : fit_.inside_share * fit_.in_step_share;
    const std::int64_t bytes = steps * of_flow.count();
    return share == 1 ? Bytes(bytes) : Bytes(std::llround(static_cast<double>(bytes) / share));
  }

  /// Bytes of a flow with which a phase of equal flows takes as long, alone on its links, as that of unequal rows does: until the
  /// link with most rows for its bandwidth is through.
  Bytes uneven(const CommPhase& phase, const Footprint& print) const {
    std::map<std::int32_t, double> rows;
    for (const Flow& flow : phase.flows)
      for (const std::int32_t link : scene_.topology.route(device(flow.from), device(flow.to)))
        rows[link] += static_cast<double>(rows_->rows(flow.from, flow.to));
    double most = 0, even = 0;
    for (const LinkUse& use : wire_.uses[print.uses]) {
      const double rate = scene_.topology.links()[use.link].bandwidth.bytes_per_second();
      most = std::max(most, rows[static_cast<std::int32_t>(use.link)] / rate);
      even = std::max(even, use.flows / rate);
    }
    return Bytes(std::llround(most / even * static_cast<double>(rows_->row_bytes)));
  }

  const Footprint& footprint(const std::vector<Flow>& flows) {
    for (const Footprint& known : prints_)
      if (known.flows == flows) return known;
    Footprint print{flows, static_cast<std::uint32_t>(wire_.uses.size()), false, {}};
    std::vector<std::int32_t> crossed;
    for (const Flow& flow : flows) trace(flow, print, crossed);
    wire_.uses.push_back(counted(crossed));
    prints_.push_back(std::move(print));
    return prints_.back();
  }

  void trace(const Flow& flow, Footprint& print, std::vector<std::int32_t>& crossed) const {
    const DeviceId from = device(flow.from), to = device(flow.to);
    Duration latency;
    for (const std::int32_t link : scene_.topology.route(from, to)) {
      crossed.push_back(link);
      latency += scene_.topology.links()[static_cast<std::size_t>(link)].latency;
    }
    print.latency = std::max(print.latency, latency);
    print.across |= scene_.topology.node_of(from) != scene_.topology.node_of(to);
  }

  DeviceId device(std::int32_t member) const {
    return scene_.topology.device_of(wire_.members[static_cast<std::size_t>(member)]);
  }

  static std::vector<LinkUse> counted(std::vector<std::int32_t>& crossed) {
    std::sort(crossed.begin(), crossed.end());
    std::vector<LinkUse> uses;
    for (const std::int32_t link : crossed) {
      if (uses.empty() || uses.back().link != static_cast<std::uint32_t>(link))
        uses.push_back({static_cast<std::uint32_t>(link), 0});
      ++uses.back().flows;
    }
    return uses;
  }

  const Scene& scene_;
  Wire& wire_;
  const std::vector<Capacity>& links_;
  CommFit fit_;
  GroupShape shape_;
  std::int64_t nodes_ = 0;              ///< that the members are on; 0: not counted yet
  std::optional<ExchangedRows> rows_;   ///< of the message that is laid, where they are unequal
  std::vector<Footprint> prints_;
  std::optional<Circuit> circuit_;
  bool circuit_known_ = false;
  std::optional<std::uint32_t> round_;  ///< the circuit's links among the wire's uses
  std::optional<std::uint32_t> cores_;  ///< the members' processors among the wire's uses
};

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
    Layer layer(scene_, wire, out_.links);
    for (const std::uint32_t m : messages(p, wire)) wire.recipes.push_back(layer.lay(m, catalogue_.messages[m]));
    out_.wires.push_back(std::move(wire));
  }

  /// What any member sends over the wire.
  std::vector<std::uint32_t> messages(std::uint32_t p, const Wire& wire) const {
    std::vector<std::size_t> stages;
    for (const Rank r : wire.members) stages.push_back(stages_[r.index()]);
    std::sort(stages.begin(), stages.end());
    stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
    if (catalogue_.ports[p].kind == Port::Kind::send) stages = {stages_[wire.members[0].index()]};
    std::vector<std::uint32_t> all;
    for (const std::size_t s : stages) {
      const auto& list = needs_[s].by_port[2 * p];
      all.insert(all.end(), list.begin(), list.end());
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
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
  wire.recipes.push_back(Layer(scene, wire, links).lay(0, message));
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
