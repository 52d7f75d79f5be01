#include "tests/agree/ledger.hpp"

#include <algorithm>

#include "sim/simulate.hpp"
#include "tests/catch.hpp"
#include "topology/topology.hpp"

namespace tandem::tests {
namespace {

void book(Ledger& l, const Task& task) {
  l.flops += matrix_flops(task.op).count();
  if (const auto* c = std::get_if<Collective>(&task.op)) {
    ++l.collectives[{c->kind, c->group}].first;
    l.collectives[{c->kind, c->group}].second += payload(task.op).count();
  }
  if (std::holds_alternative<Send>(task.op)) {
    ++l.sends;
    l.sent_bytes += payload(task.op).count();
  }
}

Ledger simulated(const TaskGraph& graph, const Lane& lane, Bytes arena) {
  Ledger l;
  l.arena_bytes = arena.count();
  const Program& program = graph.program(StageId(lane.coords[Axis::pp]));
  std::vector<std::vector<std::pair<Duration, std::size_t>>> by_start(kStreams);
  for (std::size_t i = 0; i < lane.spans.size(); ++i) {
    const Span& span = lane.spans[i];
    const Task& task = graph.of(program.instances[span.instance]).tasks[span.task];
    book(l, task);
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
  for (const auto& [key, line] : books.comm.collectives) l.collectives[key] = {line.calls, line.payload_bytes};
  l.issue_order = books.issue_order;
  l.stream_order = books.stream_order;
  return l;
}

}  // namespace

std::vector<Ledger> simulated_ledgers(const Plan& plan, const TaskGraph& graph, std::int64_t steps) {
  sim::SimulateOptions options;
  options.timeline = true;
  const Prediction p = sim::simulate(plan, graph, *make_topology(plan.cluster), options);
  std::vector<Ledger> ledgers(static_cast<std::size_t>(p.ranks));
  REQUIRE(p.timeline->lanes.size() == p.roles.size());
  for (std::size_t r = 0; r < p.roles.size(); ++r)
    for (const std::int32_t rank : p.roles[r].ranks)
      ledgers[static_cast<std::size_t>(rank)] =
          repeated(simulated(graph, p.timeline->lanes[r], p.roles[r].arena_bytes), steps);
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

void check_same_books(const std::vector<Ledger>& done, const std::vector<Ledger>& predicted, Rows rows) {
  REQUIRE(predicted.size() == done.size());
  // Dropless experts on several ranks share the planned rows out as tokens choose: all ranks together do what was planned.
  std::int64_t all_done = 0, all_predicted = 0;
  for (std::size_t r = 0; r < done.size(); ++r) all_done += done[r].flops, all_predicted += predicted[r].flops;
  CHECK(all_done == all_predicted);
  for (std::size_t r = 0; r < done.size(); ++r) {
    INFO("rank " << r);
    if (rows == Rows::planned) CHECK(done[r].flops == predicted[r].flops);
    CHECK(done[r].collectives == predicted[r].collectives);
    CHECK(done[r].sends == predicted[r].sends);
    CHECK(done[r].sent_bytes == predicted[r].sent_bytes);
    CHECK(done[r].issue_order == predicted[r].issue_order);
    CHECK(done[r].stream_order == predicted[r].stream_order);
    CHECK(done[r].arena_bytes == predicted[r].arena_bytes);
  }
}

}  // namespace tandem::tests
