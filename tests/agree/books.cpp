// What was simulated against what was done. The simulated side counts the tasks of its timeline by the graph's visitors; the
// executed side counts products as they were called, bytes as they were handed to the communicator, and what the
// allocator gave out.

#include <map>
#include <numeric>

#include "sim/simulate.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using tests::HashTokens;
using tests::SmallPlan;

namespace {

using Order = std::vector<std::pair<std::uint32_t, std::uint16_t>>;

/// One rank's books, however they were kept.
struct Ledger {
  std::int64_t flops = 0, sent_bytes = 0, sends = 0, arena_bytes = 0;
  std::map<std::pair<CollectiveKind, Group>, std::pair<std::int64_t, std::int64_t>> collectives;  ///< calls, payload
  Order issue_order;
  std::vector<Order> stream_order{kStreams};
  bool operator==(const Ledger&) const = default;
};

Ledger simulated(const TaskGraph& graph, const Lane& lane, Bytes arena) {
  Ledger l;
  l.arena_bytes = arena.count();
  const Program& program = graph.program(StageId(lane.coords[Axis::pp]));
  std::vector<std::vector<std::pair<Duration, std::size_t>>> by_start(kStreams);
  for (std::size_t i = 0; i < lane.spans.size(); ++i) {
    const Span& span = lane.spans[i];
    const Task& task = graph.of(program.instances[span.instance]).tasks[span.task];
    l.flops += matrix_flops(task.op).count();
    l.issue_order.emplace_back(span.instance, span.task);
    by_start[static_cast<std::size_t>(task.stream)].emplace_back(span.started, i);
    if (const auto* c = std::get_if<Collective>(&task.op)) {
      ++l.collectives[{c->kind, c->group}].first;
      l.collectives[{c->kind, c->group}].second += payload(task.op).count();
    }
    if (std::holds_alternative<Send>(task.op)) {
      ++l.sends;
      l.sent_bytes += payload(task.op).count();
    }
  }
  for (std::size_t s = 0; s < kStreams; ++s) {
    std::stable_sort(by_start[s].begin(), by_start[s].end(), [](auto a, auto b) { return a.first < b.first; });
    for (const auto& [start, i] : by_start[s]) l.stream_order[s].emplace_back(lane.spans[i].instance, lane.spans[i].task);
  }
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

/// Ledgers of all ranks, by rank.
std::vector<Ledger> simulate_all(const Plan& plan, const TaskGraph& graph) {
  sim::SimulateOptions options;
  options.timeline = true;
  const Prediction p = sim::simulate(plan, graph, *make_topology(plan.cluster), options);
  std::vector<Ledger> ledgers(static_cast<std::size_t>(p.ranks));
  REQUIRE(p.timeline->lanes.size() == p.roles.size());
  for (std::size_t r = 0; r < p.roles.size(); ++r)
    for (const std::int32_t rank : p.roles[r].ranks)
      ledgers[static_cast<std::size_t>(rank)] = simulated(graph, p.timeline->lanes[r], p.roles[r].arena_bytes);
  return ledgers;
}

std::vector<Ledger> execute_all(const Plan& plan, const TaskGraph& graph) {
  const exec::RunResult result = exec::run(plan, graph, HashTokens(plan.model.vocab_size), {});
  std::vector<Ledger> ledgers;
  for (const exec::RankBooks& b : result.ranks) {
    CHECK(b.arena_touched_bytes <= b.arena_bytes);
    ledgers.push_back(executed(b));
  }
  return ledgers;
}

/// The lowering with one kind of all-reduce left out, as a careless change would.
TaskGraph without(TaskGraph graph, const std::string& block, const std::string& task) {
  int dropped = 0;
  for (Template& t : graph.templates) {
    if (t.name != block) continue;
    for (std::size_t k = 0; k < t.tasks.size(); ++k) {
      if (t.tasks[k].name != task) continue;
      t.tasks.erase(t.tasks.begin() + static_cast<std::ptrdiff_t>(k));
      ++dropped;
      for (Task& later : t.tasks) {
        std::vector<std::uint16_t> deps;
        for (const std::uint16_t d : later.deps)
          if (d != k) deps.push_back(d > k ? static_cast<std::uint16_t>(d - 1) : d);
        later.deps = deps;
      }
      break;
    }
  }
  REQUIRE(dropped > 0);
  return graph;
}

}  // namespace

TEST_CASE("execution does exactly what was simulated: FLOPs, payloads, orders and memory") {
  for (const SmallPlan& p : tests::layouts()) {
    const Plan plan = p.plan();
    const TaskGraph graph = lower(plan);
    graph.check();
    const auto predicted = simulate_all(plan, graph), done = execute_all(plan, graph);
    INFO(p.label());
    REQUIRE(predicted.size() == done.size());
    for (std::size_t r = 0; r < done.size(); ++r) {
      INFO("rank " << r);
      CHECK(done[r].flops == predicted[r].flops);
      CHECK(done[r].collectives == predicted[r].collectives);
      CHECK(done[r].sends == predicted[r].sends);
      CHECK(done[r].sent_bytes == predicted[r].sent_bytes);
      CHECK(done[r].issue_order == predicted[r].issue_order);
      CHECK(done[r].stream_order == predicted[r].stream_order);
      CHECK(done[r].arena_bytes == predicted[r].arena_bytes);
    }
  }
}

TEST_CASE("a LLaMA does exactly what was simulated") {
  SmallPlan p = tests::layout(2, 2, 2, 3);
  p.llama = true;
  p.tied = false;
  p.recompute = GENERATE("none", "full");
  const Plan plan = p.plan();
  const TaskGraph graph = lower(plan);
  graph.check();
  CHECK(simulate_all(plan, graph) == execute_all(plan, graph));
}

TEST_CASE("six micro-batches over four stages agree too", "[tsan]") {
  SmallPlan p = tests::layout(1, 4, 1, 6);
  p.recompute = GENERATE("none", "full");
  p.schedule = GENERATE("1f1b", "gpipe");
  const Plan plan = p.plan();
  const TaskGraph graph = lower(plan);
  CHECK(simulate_all(plan, graph) == execute_all(plan, graph));
}

TEST_CASE("a collective dropped in the lowering shows in the books") {
  const SmallPlan p = tests::layout(2, 1, 2, 3);
  const Plan plan = p.plan();
  const TaskGraph graph = lower(plan);
  const auto predicted = simulate_all(plan, graph);
  CHECK(execute_all(plan, graph) == predicted);
  CHECK_FALSE(execute_all(plan, without(graph, "block_forward", "fc2_all_reduce")) == predicted);
  CHECK_FALSE(execute_all(plan, without(graph, "optimizer", "norm_all_reduce")) == predicted);
}

TEST_CASE("a rank of an all-reduce receives 2 (n-1) / n of the payload, by the bytes that were copied") {
  const int tensor = GENERATE(2, 4);
  const SmallPlan p = tests::layout(tensor, 1, 1, 2);
  const Plan plan = p.plan();
  const exec::RunResult result = exec::run(plan, lower(plan), HashTokens(p.vocab), {});
  std::int64_t payload = 0, received = 0;
  for (const exec::RankBooks& b : result.ranks) {
    const auto& line = b.comm.collectives.at({CollectiveKind::all_reduce, Group::tensor});
    payload = line.payload_bytes;
    received += line.received_bytes;
  }
  CHECK(received == 2 * (tensor - 1) * payload);  // over all n ranks: n times 2 (n-1) / n
}
