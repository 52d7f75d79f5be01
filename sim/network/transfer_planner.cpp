#include "sim/network/transfer_planner.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "models/base/error.hpp"
#include "models/ops/collective_bytes.hpp"
#include "sim/nccl/nccl_node.hpp"
#include "sim/nccl/rccl.hpp"
#include "sim/network/chip_rings.hpp"

namespace tandem::sim {
namespace {

InfeasibleError uneven_nodes(CollectiveKind kind, std::int64_t ranks) {
  return InfeasibleError(Problem{"", "cluster.override.algorithms." + std::string(name(kind)), "\"hierarchical\"",
                                 "a group of " + std::to_string(ranks) + " ranks has not as many on every node",
                                 "use another algorithm, or degrees that divide a node's devices"});
}

/// Seconds that a route may take beyond NCCL's own step between nodes, which includes switches. Presets' routes are up to 1.5 us
/// longer than that step (two crossings of leaf and spine at 0.33 us, NICs of 15 us). Networks that report a latency begin 18 us
/// above it.
constexpr double kSwitches = 2e-6;

/// Whether NCCL carries the collective by a send to each receiver.
bool of_sends(CollectiveKind kind) { return kind == CollectiveKind::all_to_all || kind == CollectiveKind::shift; }

/// Members of a group on the node that has most of them.
std::int64_t most_on_a_node(const GroupShape& shape) {
  std::map<std::int32_t, std::int64_t> members;
  std::int64_t most = 0;
  for (const std::int32_t node : shape.node) most = std::max(most, ++members[node]);
  return most;
}

}  // namespace

std::size_t core_link(const Topology& topology, DeviceId d) { return static_cast<std::size_t>(topology.link_count()) + d.index(); }

TransferPlan TransferPlanner::make_plan(std::uint32_t id, const Message& message) {
  const Op op = replayed(message);
  TransferPlan plan;
  plan.message = id;
  const auto ranks = static_cast<std::int64_t>(transfer_.members.size());
  if (ranks < 2) return plan;
  rows_.reset(), slow_.reset();
  const auto* collective = std::get_if<Collective>(&op);
  on_rails_ = collective != nullptr && of_sends(collective->kind) && keeps_to_rails();
  const bool copies = collective != nullptr && collective->copies.experts > 0;
  if (message.tmpl >= 0 && collective->kind == CollectiveKind::all_to_all && !copies)
    rows_ = setup_.replay->exchanged(static_cast<std::size_t>(message.tmpl), op, transfer_.members);
  const auto measured = copies ? std::nullopt : setup_.cost.communication(rows_ ? rows_->even(op) : op, ranks);
  if (measured) {
    if (hosts_carry())
      carry(plan, *measured);
    else
      plan.tail = *measured;
    return plan;
  }
  plan.tail = fit_.overhead + fit_.in_step_overhead;
  const bool library = collective != nullptr && by_ring(*collective) && !setup_.topology.algorithm(collective->kind);
  if (!library || !go_round(plan, *collective)) {
    const Expansion expansion = expansion_of(op);
    for (const CommPhase& phase : expansion.phases) add(plan, phase, expansion.pipelined);
  }
  if (collective != nullptr) {
    if (fit_.nccl && library) tune(plan, *collective);
    if (collective->chunked) expose(plan, std::max(fit_.chunked_exposed, setup_.graph.exposed_pieces));
  }
  return plan;
}

Op TransferPlanner::replayed(const Message& message) const {
  if (message.tmpl < 0) return message.op;
  return setup_.replay->timed(transfer_.members.front(), static_cast<std::size_t>(message.tmpl), message.op);
}

Expansion TransferPlanner::expansion_of(const Op& op) {
  if (std::holds_alternative<Send>(op)) return {{CommPhase{1, payload(op), {{0, 1}}, Tier::any}}, false};
  const auto& collective = std::get<Collective>(op);
  if (shape_.node.empty()) shape_ = shape_of(setup_.topology, transfer_.members);
  if (collective.copies.experts > 0) return expand(collective, Algorithm::direct, shape_);
  const Choice choice = choose_algorithm(setup_.topology.scale_up(), collective, shape_);
  const auto wanted = setup_.topology.algorithm(collective.kind);
  if (wanted == Algorithm::hierarchical && uniform(shape_) == 0) throw uneven_nodes(collective.kind, shape_.size());
  return expand(collective, wanted.value_or(choice.algorithm), shape_, choice.inside);
}

void TransferPlanner::carry(TransferPlan& plan, Duration measured) {
  if (!cores_) cores_ = use_cores();
  std::int32_t most = 1;
  for (const LinkUse& use : transfer_.uses[*cores_]) most = std::max(most, use.flows);
  plan.chains[0].push_back({*cores_, core_work(measured) / most});
}

std::uint32_t TransferPlanner::use_cores() {
  std::vector<std::int32_t> cores;
  for (const Rank r : transfer_.members)
    cores.push_back(static_cast<std::int32_t>(core_link(setup_.topology, setup_.topology.device_of(r))));
  return use(std::move(cores));
}

std::uint32_t TransferPlanner::use(std::vector<std::int32_t> links) {
  transfer_.uses.push_back(counted(links));
  return static_cast<std::uint32_t>(transfer_.uses.size() - 1);
}

void TransferPlanner::add(TransferPlan& plan, const CommPhase& phase, bool pipelined) {
  const Footprint& print = footprint(phase.flows);
  plan.tail += phase.steps * print.latency;
  if (transfer_.uses[print.uses].empty()) return;
  auto& chain = plan.chains[pipelined && print.across ? 1 : 0];
  const Work work = work_of(loaded(rows_ ? uneven(phase, print) : phase.bytes, phase.steps, print.across));
  if (!chain.empty() && chain.back().uses == print.uses)
    chain.back().work += work;
  else
    chain.push_back({print.uses, work});
}

std::optional<TransferPlanner::Circuit> TransferPlanner::circuit() const {
  if (auto chips = chip_rings(setup_.topology, transfer_.members))
    return Circuit{chips->chips, chips->ways, std::move(chips->links), chips->hop};
  if (!fit_.nccl) return {};
  if (auto mesh = mesh_rings(setup_.topology, transfer_.members))
    return Circuit{static_cast<std::int64_t>(transfer_.members.size()), mesh->rings, std::move(mesh->links), mesh->hop};
  return {};
}

bool TransferPlanner::go_round(TransferPlan& plan, const Collective& c) {
  if (!circuit_known_) circuit_ = circuit();
  circuit_known_ = true;
  if (!circuit_) return false;
  const std::int64_t steps = ring_steps(c.kind, circuit_->stations);
  const std::int64_t parts = circuit_->stations * circuit_->ways;
  const Bytes piece((payload(c).count() + parts - 1) / parts);
  if (!round_) round_ = use(circuit_->links);
  plan.tail += steps * circuit_->hop;
  plan.chains[0].push_back({*round_, work_of(loaded(piece, steps, false))});
  return true;
}

bool TransferPlanner::by_ring(const Collective& c) {
  return c.kind == CollectiveKind::all_reduce || c.kind == CollectiveKind::all_gather ||
         c.kind == CollectiveKind::reduce_scatter;
}

void TransferPlanner::tune(TransferPlan& plan, const Collective& c) {
  if (nodes_ == 0) nodes_ = count_nodes();
  NcclTask task;
  task.kind = c.kind;
  task.ranks = static_cast<std::int64_t>(transfer_.members.size());
  task.nodes = nodes_;
  task.bytes = payload(c).count();
  if (uniform(shape_) > 0) through_all(plan, c);  // over nodes of unlike size rings go through all ranks already
  (nodes_ == 1 ? task.inside_s : task.across_s) = alone(plan.chains[0]);
  if (!plan.chains[1].empty()) task.inside_s = alone(plan.chains[0]), task.across_s = alone(plan.chains[1]);
  search(task);
  task.network_latency_s = network_latency();
  const NcclSettings told = setup_.topology.nccl_settings();
  if (told.reported_latency) task.reported_latency_s = told.reported_latency->seconds();
  task.only_simple = told.only_simple;
  task.only_ring = told.only_ring;
  task.no_nvls = told.no_nvls;
  if (told.buffer) task.buffer = told.buffer->count();
  if (told.nvls_chunk) task.nvls_chunk = told.nvls_chunk->count();
  task.in_switch_share = fit_.in_switch_share;
  if (fit_.ring_copy) task.last_copy_s = (Bytes(task.bytes / task.ranks) / *fit_.ring_copy).seconds();
  const NcclChoice choice = nccl_choice(task, *fit_.nccl), fastest = nccl_fastest(task, *fit_.nccl);
  if (choice.algorithm != fastest.algorithm)
    slow_ = {choice.algorithm, fastest.algorithm, choice.seconds(task), fastest.seconds(task)};
  plan.tail = fit_.overhead + fit_.in_step_overhead + Duration::seconds(choice.latency_s);
  for (auto& chain : plan.chains) stretch(chain, 1 / choice.rate);
}

void TransferPlanner::through_all(TransferPlan& plan, const Collective& c) {
  if (plan.chains[1].empty()) return;
  const auto ranks = static_cast<double>(transfer_.members.size()), nodes = static_cast<double>(nodes_);
  const auto passed = [](double stations) { return (stations - 1) / stations; };
  stretch(plan.chains[1], passed(ranks) / passed(nodes));
  // In a mesh the links that a ring's exit leaves idle belong to other rings: two nodes of 8 MI300X reach 8/7 of one's rate.
  const bool meshed = setup_.topology.scale_up() == ScaleUp::full_mesh;
  stretch(plan.chains[0], passed(ranks) / (meshed ? 1 : passed(ranks / nodes)));
  if (!node_rings_known_) node_rings_ = rings_of_nodes(setup_.topology, transfer_.members);
  node_rings_known_ = true;
  if (!node_rings_) return;
  if (!round_) round_ = use(node_rings_->links);
  const double of_ring = wire_bytes(c.kind, payload(c), transfer_.members.size()) / static_cast<double>(node_rings_->rings);
  plan.chains[0] = {{*round_, work_of(loaded(Bytes(std::llround(of_ring * passed(ranks / nodes))), 1, false))}};
}

void TransferPlanner::stretch(std::vector<Segment>& chain, double factor) {
  for (Segment& s : chain) s.work = static_cast<Work>(static_cast<double>(s.work) * factor);
}

void TransferPlanner::search(NcclTask& task) {
  if (!node_) {
    node_ = nccl_node(setup_.topology, transfer_.members, circuit_ ? circuit_->ways : 0,
                      circuit_ ? circuit_->links : std::vector<std::int32_t>());
    graphs_ = nccl_search(*node_, *fit_.nccl);
  }
  task.graphs = graphs_;
  task.nics = std::max<std::int64_t>(1, node_->nics);
  task.processor = setup_.topology.host_processor();
  task.network_reduces = setup_.topology.network_reduces();
  task.switched = setup_.topology.scale_up() == ScaleUp::crossbar;
  task.pcie = node_->pcie;
}

std::int64_t TransferPlanner::count_nodes() const {
  std::vector<std::int64_t> nodes;
  for (const Rank r : transfer_.members) nodes.push_back(setup_.topology.node_of(setup_.topology.device_of(r)));
  std::sort(nodes.begin(), nodes.end());
  return std::unique(nodes.begin(), nodes.end()) - nodes.begin();
}

double TransferPlanner::network_latency() const {
  Duration most;
  for (const Footprint& print : prints_)
    if (print.across) most = std::max(most, print.latency);
  const double beyond = most.seconds() - kNcclStepAcross;
  return beyond > kSwitches ? beyond : 0;
}

void TransferPlanner::expose(TransferPlan& plan, double share) {
  const auto part = [share](std::int64_t whole) { return std::llround(static_cast<double>(whole) * share); };
  plan.tail = Duration::picoseconds(part(plan.tail.ps()));
  for (auto& chain : plan.chains)
    for (Segment& s : chain) s.work = static_cast<Work>(static_cast<double>(s.work) * share);
  if (slow_) slow_->chosen_s *= share, slow_->other_s *= share;
}

double TransferPlanner::across_share() const {
  if (const std::optional<double> measured = setup_.topology.network_share()) return *measured;
  const double share = fit_.across_share * fit_.in_step_across_share;
  if (setup_.topology.devices_per_nic() == 1 || shape_.node.empty()) return share;
  const std::int64_t here = most_on_a_node(shape_);
  const bool some = here > 1 && here < setup_.topology.devices_per_node();
  return share * (some ? fit_.shared_nic_share : 1);
}

double TransferPlanner::inside_share() const {
  return setup_.topology.link_share().value_or(fit_.inside_share) * fit_.in_step_share;
}

Bytes TransferPlanner::loaded(Bytes of_flow, std::int64_t steps, bool across) const {
  const double share = across ? across_share() : inside_share();
  const std::int64_t bytes = steps * of_flow.count();
  return share == 1 ? Bytes(bytes) : Bytes(std::llround(static_cast<double>(bytes) / share));
}

Bytes TransferPlanner::uneven(const CommPhase& phase, const Footprint& print) {
  std::map<std::int32_t, double> rows;
  for (const Flow& flow : phase.flows)
    for (const std::int32_t link : route(device(flow.from), device(flow.to)))
      rows[link] += static_cast<double>(rows_->rows(flow.from, flow.to));
  double most = 0, even = 0;
  for (const LinkUse& use : transfer_.uses[print.uses]) {
    const double rate = setup_.topology.link(static_cast<std::int32_t>(use.link)).bandwidth.bytes_per_second();
    most = std::max(most, rows[static_cast<std::int32_t>(use.link)] / rate);
    even = std::max(even, use.flows / rate);
  }
  return Bytes(std::llround(most / even * static_cast<double>(rows_->row_bytes)));
}

bool TransferPlanner::keeps_to_rails() const {
  return fit_.nccl && !is_rccl(*fit_.nccl) && setup_.topology.scale_up() == ScaleUp::crossbar;
}

std::vector<std::int32_t> TransferPlanner::route(DeviceId from, DeviceId to) {
  if (!on_rails_) return setup_.topology.route(from, to);
  if (!rails_) rails_.emplace(setup_.topology, transfer_.members);
  return rails_->route(from, to);
}

const Footprint& TransferPlanner::footprint(const std::vector<Flow>& flows) {
  for (const Footprint& known : prints_)
    if (known.on_rails == on_rails_ && known.flows == flows) return known;
  CrossedLinks crossed = crossed_by(flows);
  prints_.push_back({flows, static_cast<std::uint32_t>(transfer_.uses.size()), crossed.across, on_rails_, crossed.latency});
  transfer_.uses.push_back(std::move(crossed.uses));
  return prints_.back();
}

CrossedLinks TransferPlanner::crossed_by(const std::vector<Flow>& flows) {
  if (setup_.footprints == nullptr) return trace(flows);
  colour::Hash key;
  colour::then(key, colour::both(transfer_.members.size(), on_rails_ ? 1 : 0));
  for (const Rank r : transfer_.members) colour::then(key, static_cast<std::uint64_t>(setup_.topology.device_of(r).value()));
  for (const Flow& flow : flows)
    colour::then(key, colour::both(static_cast<std::uint64_t>(flow.from), static_cast<std::uint64_t>(flow.to)));
  return setup_.footprints->get(key, [&] { return trace(flows); });
}

CrossedLinks TransferPlanner::trace(const std::vector<Flow>& flows) {
  CrossedLinks out;
  std::vector<std::int32_t> crossed;
  crossed.reserve(8 * flows.size());  // a route between nodes has about 8 links
  for (const Flow& flow : flows) trace(flow, out, crossed);
  out.uses = counted(crossed);
  return out;
}

void TransferPlanner::trace(const Flow& flow, CrossedLinks& out, std::vector<std::int32_t>& crossed) {
  const DeviceId from = device(flow.from), to = device(flow.to);
  Duration latency;
  for (const std::int32_t link : route(from, to)) {
    crossed.push_back(link);
    latency += setup_.topology.link(link).latency;
  }
  out.latency = std::max(out.latency, latency);
  out.across |= setup_.topology.node_of(from) != setup_.topology.node_of(to);
}

DeviceId TransferPlanner::device(std::int32_t member) const {
  return setup_.topology.device_of(transfer_.members[static_cast<std::size_t>(member)]);
}

namespace {

/// Counts in a table over all links. All-to-alls of hundreds of ranks cross a link hundreds of times, so sorting would take longer.
std::vector<LinkUse> counted_by_link(const std::vector<std::int32_t>& crossed, std::size_t links) {
  std::vector<std::int32_t> flows(links, 0);
  for (const std::int32_t link : crossed) ++flows[static_cast<std::size_t>(link)];
  std::vector<LinkUse> uses;
  uses.reserve(links - static_cast<std::size_t>(std::count(flows.begin(), flows.end(), 0)));
  for (std::size_t link = 0; link < links; ++link)
    if (flows[link] > 0) uses.push_back({static_cast<std::uint32_t>(link), flows[link]});
  return uses;
}

}  // namespace

std::vector<LinkUse> TransferPlanner::counted(std::vector<std::int32_t>& crossed) const {
  // Processors are numbered behind the links.
  const std::size_t all = core_link(setup_.topology, DeviceId(static_cast<std::int32_t>(setup_.topology.devices())));
  if (crossed.size() >= all) return counted_by_link(crossed, all);
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
