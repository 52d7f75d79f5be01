#include "sim/network/laying.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "models/base/error.hpp"
#include "sim/nccl/nccl_node.hpp"
#include "sim/network/chip_rings.hpp"
#include "sim/network/mesh_rings.hpp"

namespace tandem::sim {
namespace {

InfeasibleError uneven_nodes(CollectiveKind kind, std::int64_t ranks) {
  return InfeasibleError(Problem{"", "cluster.override.algorithms." + std::string(name(kind)), "\"hierarchical\"",
                                 "a group of " + std::to_string(ranks) + " ranks has not as many on every node",
                                 "use another algorithm, or degrees that divide a node's devices"});
}

constexpr double kSwitches = 2e-6;  ///< seconds that switches on a route may take; the library's model has them

}  // namespace

std::size_t core_link(const Topology& topology, DeviceId d) { return topology.links().size() + d.index(); }

Recipe Laying::lay(std::uint32_t id, const Message& message) {
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
  recipe.tail = fit_.overhead + fit_.in_step_overhead;
  const auto* collective = std::get_if<Collective>(&op);
  const bool library = collective != nullptr && by_ring(*collective) && !scene_.topology.algorithm(collective->kind);
  if (!library || !go_round(recipe, *collective)) {
    const Expansion expansion = expansion_of(op);
    for (const CommPhase& phase : expansion.phases) add(recipe, phase, expansion.pipelined);
  }
  if (collective != nullptr) {
    if (fit_.nccl && library) tune(recipe, *collective);
    if (collective->chunked) expose(recipe, fit_.chunked_exposed);
  }
  return recipe;
}

Op Laying::replayed(const Message& message) const {
  if (message.tmpl < 0) return message.op;
  return scene_.replay->timed(wire_.members.front(), static_cast<std::size_t>(message.tmpl), message.op);
}

Expansion Laying::expansion_of(const Op& op) {
  if (const auto* send = std::get_if<Send>(&op))
    return {{CommPhase{1, bytes_of(send->dtype, send->elements), {{0, 1}}, Tier::any}}, false};
  const auto& collective = std::get<Collective>(op);
  if (shape_.node.empty()) shape_ = shape_of(scene_.topology, wire_.members);
  const Choice choice = choose_algorithm(scene_.topology.scale_up(), collective, shape_);
  const auto wanted = scene_.topology.algorithm(collective.kind);
  if (wanted == Algorithm::hierarchical && uniform(shape_) == 0) throw uneven_nodes(collective.kind, shape_.size());
  return expand(collective, wanted.value_or(choice.algorithm), shape_, choice.inside);
}

void Laying::carry(Recipe& recipe, Duration measured) {
  if (!cores_) cores_ = use_cores();
  std::int32_t most = 1;
  for (const LinkUse& use : wire_.uses[*cores_]) most = std::max(most, use.flows);
  recipe.chains[0].push_back({*cores_, core_work(measured) / most});
}

std::uint32_t Laying::use_cores() {
  std::vector<std::int32_t> cores;
  for (const Rank r : wire_.members)
    cores.push_back(static_cast<std::int32_t>(core_link(scene_.topology, scene_.topology.device_of(r))));
  wire_.uses.push_back(counted(cores));
  return static_cast<std::uint32_t>(wire_.uses.size() - 1);
}

void Laying::add(Recipe& recipe, const CommPhase& phase, bool pipelined) {
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

std::optional<Laying::Circuit> Laying::circuit() const {
  if (auto chips = chip_rings(scene_.topology, wire_.members))
    return Circuit{chips->chips, chips->ways, std::move(chips->links), chips->hop};
  if (!fit_.nccl) return {};
  if (auto mesh = mesh_rings(scene_.topology, wire_.members))
    return Circuit{static_cast<std::int64_t>(wire_.members.size()), mesh->rings, std::move(mesh->links), mesh->hop};
  return {};
}

bool Laying::go_round(Recipe& recipe, const Collective& c) {
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

bool Laying::by_ring(const Collective& c) {
  return c.kind == CollectiveKind::all_reduce || c.kind == CollectiveKind::all_gather ||
         c.kind == CollectiveKind::reduce_scatter;
}

void Laying::tune(Recipe& recipe, const Collective& c) {
  if (nodes_ == 0) nodes_ = count_nodes();
  NcclTask task;
  task.kind = c.kind;
  task.ranks = static_cast<std::int64_t>(wire_.members.size());
  task.nodes = nodes_;
  task.bytes = bytes_of(c.dtype, c.elements).count();
  if (uniform(shape_) > 0) through_all(recipe);  // rings of nodes of unlike size do go through all
  (nodes_ == 1 ? task.inside_s : task.across_s) = alone(recipe.chains[0]);
  if (!recipe.chains[1].empty()) task.inside_s = alone(recipe.chains[0]), task.across_s = alone(recipe.chains[1]);
  search(task);
  task.network_latency_s = network_latency();
  const NcclSettings told = scene_.topology.nccl_settings();
  if (told.reported_latency) task.reported_latency_s = told.reported_latency->seconds();
  task.only_simple = told.only_simple;
  task.only_ring = told.only_ring;
  task.no_nvls = told.no_nvls;
  if (told.buffer) task.buffer = told.buffer->count();
  if (told.nvls_chunk) task.nvls_chunk = told.nvls_chunk->count();
  task.in_switch_share = fit_.in_switch_share;
  if (fit_.ring_copy) task.last_copy_s = (Bytes(task.bytes / task.ranks) / *fit_.ring_copy).seconds();
  const NcclChoice choice = nccl_choice(task, *fit_.nccl);
  recipe.tail = fit_.overhead + fit_.in_step_overhead + Duration::seconds(choice.latency_s);
  for (auto& chain : recipe.chains) stretch(chain, 1 / choice.rate);
}

void Laying::through_all(Recipe& recipe) const {
  if (recipe.chains[1].empty()) return;
  const auto ranks = static_cast<double>(wire_.members.size()), nodes = static_cast<double>(nodes_);
  const auto passed = [](double stations) { return (stations - 1) / stations; };
  stretch(recipe.chains[0], passed(ranks) / passed(ranks / nodes));
  stretch(recipe.chains[1], passed(ranks) / passed(nodes));
}

void Laying::stretch(std::vector<Segment>& chain, double factor) {
  for (Segment& s : chain) s.work = static_cast<Work>(static_cast<double>(s.work) * factor);
}

void Laying::search(NcclTask& task) {
  if (!node_) {
    node_ = nccl_node(scene_.topology, wire_.members, circuit_ ? circuit_->ways : 0,
                      circuit_ ? circuit_->links : std::vector<std::int32_t>());
    graphs_ = nccl_search(*node_, *fit_.nccl);
  }
  task.graphs = graphs_;
  task.nics = std::max<std::int64_t>(1, node_->nics);
  task.processor = scene_.topology.host_processor();
  task.network_reduces = scene_.topology.network_reduces();
  task.switched = scene_.topology.scale_up() == ScaleUp::crossbar;
}

std::int64_t Laying::count_nodes() const {
  std::set<std::int64_t> nodes;
  for (const Rank r : wire_.members) nodes.insert(scene_.topology.node_of(scene_.topology.device_of(r)));
  return static_cast<std::int64_t>(nodes.size());
}

double Laying::network_latency() const {
  Duration most;
  for (const Footprint& print : prints_)
    if (print.across) most = std::max(most, print.latency);
  const double beyond = most.seconds() - kNcclStepAcross;
  return beyond > kSwitches ? beyond : 0;
}

void Laying::expose(Recipe& recipe, double share) {
  const auto part = [share](std::int64_t whole) { return std::llround(static_cast<double>(whole) * share); };
  recipe.tail = Duration::picoseconds(part(recipe.tail.ps()));
  for (auto& chain : recipe.chains)
    for (Segment& s : chain) s.work = static_cast<Work>(static_cast<double>(s.work) * share);
}

double Laying::across_share() const {
  if (const std::optional<double> measured = scene_.topology.network_share()) return *measured;
  const double share = fit_.across_share * fit_.in_step_across_share;
  if (scene_.topology.devices_per_nic() == 1 || shape_.node.empty()) return share;
  const std::int64_t here = std::count(shape_.node.begin(), shape_.node.end(), shape_.node.front());
  const bool some = here > 1 && here < scene_.topology.devices_per_node();
  return share * (some ? fit_.shared_nic_share : 1);
}

Bytes Laying::loaded(Bytes of_flow, std::int64_t steps, bool across) const {
  const double share = across ? across_share() : fit_.inside_share * fit_.in_step_share;
  const std::int64_t bytes = steps * of_flow.count();
  return share == 1 ? Bytes(bytes) : Bytes(std::llround(static_cast<double>(bytes) / share));
}

Bytes Laying::uneven(const CommPhase& phase, const Footprint& print) const {
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

const Footprint& Laying::footprint(const std::vector<Flow>& flows) {
  for (const Footprint& known : prints_)
    if (known.flows == flows) return known;
  Footprint print{flows, static_cast<std::uint32_t>(wire_.uses.size()), false, {}};
  std::vector<std::int32_t> crossed;
  crossed.reserve(8 * flows.size());  // links of a route between nodes, as a rule
  for (const Flow& flow : flows) trace(flow, print, crossed);
  wire_.uses.push_back(counted(crossed));
  prints_.push_back(std::move(print));
  return prints_.back();
}

void Laying::trace(const Flow& flow, Footprint& print, std::vector<std::int32_t>& crossed) const {
  const DeviceId from = device(flow.from), to = device(flow.to);
  Duration latency;
  for (const std::int32_t link : scene_.topology.route(from, to)) {
    crossed.push_back(link);
    latency += scene_.topology.links()[static_cast<std::size_t>(link)].latency;
  }
  print.latency = std::max(print.latency, latency);
  print.across |= scene_.topology.node_of(from) != scene_.topology.node_of(to);
}

DeviceId Laying::device(std::int32_t member) const {
  return scene_.topology.device_of(wire_.members[static_cast<std::size_t>(member)]);
}

std::vector<LinkUse> Laying::counted(std::vector<std::int32_t>& crossed) {
  std::sort(crossed.begin(), crossed.end());
  std::size_t links = 0;
  for (std::size_t i = 0; i < crossed.size(); ++i) links += i == 0 || crossed[i] != crossed[i - 1];
  std::vector<LinkUse> uses;
  uses.reserve(links);
  for (const std::int32_t link : crossed) {
    if (uses.empty() || uses.back().link != static_cast<std::uint32_t>(link))
      uses.push_back({static_cast<std::uint32_t>(link), 0});
    ++uses.back().flows;
  }
  return uses;
}

}  // namespace tandem::sim
