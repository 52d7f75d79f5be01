#include "tests/agree/ledger.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "exec/shared/newton_schulz.hpp"
#include "exec/state/param_layout.hpp"
#include "models/graph/owners.hpp"
#include "reports/timeline/run_routing.hpp"
#include "sim/result/simulate.hpp"
#include "tests/agree/closeness.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/backends.hpp"
#include "tests/catch.hpp"
#include "topology/topology.hpp"

namespace tandem::tests {
namespace {

/// What one rank of a simulation does.
struct Seat {
  Rank rank;
  const Routing* routing;
  std::vector<ParamPiece> updated;  ///< with ZeRO 1 under Muon, else empty

  Op op(const Task& task, const Instance& i) const {
    Op op = routing ? routing->sized(task.op, rank, i) : task.op;
    if (auto* muon = std::get_if<Muon>(&op); muon != nullptr && !updated.empty()) muon->matrices = matrices_of(*muon);
    return op;
  }

 private:
  /// The rank's own number of matrices of a shape; the graph has that of the busiest data rank.
  std::int64_t matrices_of(const Muon& op) const {
    std::int64_t n = 0;
    for (const ParamPiece& p : updated)
      for (int part = 0; part < kMostParts; ++part)
        if (exec::is_of(op, p.param->matrices, part)) n += stacked_in(p.param->matrices, p.count);
    return n;
  }
};

std::vector<ParamPiece> owned_by(const Plan& plan, const TaskGraph& graph, Rank rank) {
  if (plan.training.optimizer.kind != OptimizerKind::muon || plan.parallel.zero_stage == 0) return {};
  const Mesh mesh = make_mesh(plan);
  const Program& program = graph.program(StageId(mesh.coords(rank)[Axis::pp]));
  return param_pieces(program, exec::rank_state(program, mesh, rank, nullptr).seat);
}

bool brings_rows(CollectiveKind kind, Group group) {
  if (group == Group::expert) return kind == CollectiveKind::all_to_all;
  const bool shares = group == Group::tensor || group == Group::expert_tensor;
  return shares && (kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter);
}

void book_rows(Ledger& l, const Collective& c, const Instance& i, const Seat& seat) {
  if (seat.routing && brings_rows(c.kind, c.group)) l.rows_received += seat.routing->received(c, seat.rank, i).count();
}

void book(Ledger& l, const Task& task, const Instance& i, const Seat& seat) {
  l.flops += matrix_flops(seat.op(task, i)).count();
  if (const auto* c = std::get_if<Collective>(&task.op)) book_rows(l, *c, i, seat);
  if (const auto* c = std::get_if<Collective>(&task.op)) {
    ++l.collectives[{c->kind, c->group}].first;
    l.collectives[{c->kind, c->group}].second += payload(task.op).count();
  }
  if (std::holds_alternative<Send>(task.op)) {
    ++l.sends;
    l.sent_bytes += payload(task.op).count();
  }
}

Ledger simulated(const TaskGraph& graph, const Lane& lane, Bytes arena, const Seat& seat) {
  Ledger l;
  l.arena_bytes = arena.count();
  const Program& program = graph.program(StageId(lane.coords[Axis::pp]));
  std::vector<std::vector<std::pair<Duration, std::size_t>>> by_start(kStreams);
  for (std::size_t i = 0; i < lane.spans.size(); ++i) {
    const Span& span = lane.spans[i];
    const Instance& instance = program.instances[span.instance];
    const Task& task = graph.of(instance).tasks[span.task];
    book(l, task, instance, seat);
    l.issue_order.emplace_back(span.instance, span.task);
    by_start[static_cast<std::size_t>(task.stream)].emplace_back(span.started, i);
  }
  for (std::size_t s = 0; s < kStreams; ++s) {
    std::stable_sort(by_start[s].begin(), by_start[s].end(), [](auto a, auto b) { return a.first < b.first; });
    for (const auto& [start, i] : by_start[s])
      l.stream_order[s].emplace_back(lane.spans[i].instance, lane.spans[i].task);
  }
  return l;
}

Ledger repeated(Ledger l, std::int64_t steps) {
  l.flops *= steps;
  l.rows_received *= steps;
  l.sends *= steps;
  l.sent_bytes *= steps;
  for (auto& [key, line] : l.collectives) line = {line.first * steps, line.second * steps};
  return l;
}

Ledger executed(const exec::RankBooks& books) {
  Ledger l;
  l.flops = books.backend.gemm_flops;
  l.arena_bytes = books.backend.peak_bytes;
  l.sends = books.comm.sends;
  l.sent_bytes = books.comm.sent_bytes;
  for (const auto& [key, line] : books.comm.collectives) {
    l.collectives[key] = {line.calls, line.payload_bytes};
    if (brings_rows(key.first, key.second)) l.rows_received += line.received_bytes;
  }
  l.issue_order = books.issue_order;
  l.stream_order = books.stream_order;
  return l;
}

/// Ranks whose products are foreseen only together.
std::vector<Rank> share_rows(const Plan& plan, const Mesh& mesh, Rank r) {
  return depends_on_routing(plan) ? mesh.members(Group::expert, r) : std::vector{r};
}

/// `ranks`, and the ranks that share sequences with them if a window or a list gives context ranks unequal numbers of keys.
std::vector<Rank> share_pairs(const Plan& plan, const Mesh& mesh, const std::vector<Rank>& ranks) {
  const bool all_keys = plan.model.window.size == 0 && plan.model.indexer.heads == 0;
  if (all_keys || plan.parallel.context == 1) return ranks;
  std::set<Rank> all;
  for (const Rank r : ranks)
    for (const Rank other : mesh.members(Group::context, r)) all.insert(other);
  return {all.begin(), all.end()};
}

std::int64_t flops(const std::vector<Ledger>& ledgers, const std::vector<Rank>& ranks) {
  return std::accumulate(ranks.begin(), ranks.end(), std::int64_t{0},
                         [&](std::int64_t sum, Rank r) { return sum + ledgers[r.index()].flops; });
}

}  // namespace

std::vector<Ledger> simulated_ledgers(const Plan& plan, const TaskGraph& graph, std::int64_t steps, const Routing* routing) {
  sim::SimulateOptions options;
  options.routing = routing;
  options.timeline = true;
  const Prediction p = sim::simulate(plan, graph, *make_topology(plan.cluster), options);
  std::vector<Ledger> ledgers(static_cast<std::size_t>(p.ranks));
  REQUIRE(p.timeline->lanes.size() == p.roles.size());
  for (std::size_t r = 0; r < p.roles.size(); ++r)
    for (const std::int32_t rank : p.roles[r].ranks) {
      const Seat seat{Rank(rank), routing, owned_by(plan, graph, Rank(rank))};
      ledgers[seat.rank.index()] = repeated(simulated(graph, p.timeline->lanes[r], p.roles[r].arena_bytes, seat), steps);
    }
  return ledgers;
}

std::vector<Ledger> executed_ledgers(const exec::RunResult& result) {
  std::vector<Ledger> ledgers;
  for (const exec::RankBooks& b : result.ranks) {
    CHECK(b.arena_touched_bytes <= b.arena_bytes);
    ledgers.push_back(executed(b));
  }
  return ledgers;
}

void check_same_books(const Plan& plan, const std::vector<Ledger>& done, const std::vector<Ledger>& predicted, bool routed) {
  REQUIRE(predicted.size() == done.size());
  const Mesh mesh = make_mesh(plan);
  for (std::size_t r = 0; r < done.size(); ++r) {
    INFO("rank " << r);
    const Rank rank(static_cast<std::int32_t>(r));
    const std::vector<Rank> sharing = routed ? std::vector{rank} : share_rows(plan, mesh, rank);
    if (routed) CHECK(done[r].rows_received == predicted[r].rows_received);
    const std::vector<Rank> together = share_pairs(plan, mesh, sharing);
    CHECK(flops(done, together) == flops(predicted, together));
    CHECK(done[r].collectives == predicted[r].collectives);
    CHECK(done[r].sends == predicted[r].sends);
    CHECK(done[r].sent_bytes == predicted[r].sent_bytes);
    CHECK(done[r].issue_order == predicted[r].issue_order);
    CHECK(done[r].stream_order == predicted[r].stream_order);
    CHECK(done[r].arena_bytes == predicted[r].arena_bytes);
  }
}

std::int64_t check_replayed_books(const Plan& plan, const TaskGraph& graph) {
  exec::RunOptions options = tests::run_options();
  options.steps = 1;
  options.timeline_step = 0;
  const exec::RunResult run = exec::run(plan, graph, HashTokens(plan.model.vocab_size), options);
  const Routing routing = routing_of(*run.timeline, make_mesh(plan));
  const std::vector<Ledger> done = executed_ledgers(run);
  check_same_books(plan, done, simulated_ledgers(plan, graph, 1, &routing), true);
  const std::vector<Ledger> even = simulated_ledgers(plan, graph);
  std::int64_t uneven = 0;
  for (std::size_t r = 0; r < done.size(); ++r) uneven += done[r].flops != even[r].flops;
  return uneven;
}

void check_trains_like(const exec::RunResult& one, const Plan& plan) {
  const auto steps = static_cast<std::int64_t>(one.steps.size());
  const TaskGraph graph = lower(plan);
  graph.check();
  const exec::RunResult run = train(plan, graph, steps);
  CHECK(loss_error(run, one) <= 1e-12);
  CHECK(gradient_error(run, one) <= 1e-12);
  for (std::size_t s = 0; s < one.steps.size(); ++s)
    CHECK(std::abs(run.steps[s].grad_norm - one.steps[s].grad_norm) <= 1e-12 * one.steps[s].grad_norm);
  check_same_books(plan, executed_ledgers(run), simulated_ledgers(plan, graph, steps));
}

}  // namespace tandem::tests
