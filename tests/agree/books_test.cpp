// Simulation and execution keep equal books, and a careless lowering unbalances them. generated.cpp asks the same of every
// generated plan.

#include "tests/agree/layouts.hpp"
#include "tests/agree/ledger.hpp"
#include "tests/backends.hpp"
#include "tests/catch.hpp"
#include "tests/patched_plan.hpp"

using namespace tandem;
using tests::HashTokens;
using tests::Ledger;
using tests::SmallPlan;
using tests::executed_ledgers;
using tests::simulated_ledgers;

namespace {

std::vector<Ledger> execute_all(const Plan& plan, const TaskGraph& graph) {
  return executed_ledgers(exec::run(plan, graph, HashTokens(plan.model.vocab_size), tests::run_options()));
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

TEST_CASE("execution does exactly what was simulated: FLOPs, payloads, orders and memory", "[emulated]") {
  for (const SmallPlan& p : tests::layouts()) {
    const Plan plan = p.plan();
    const TaskGraph graph = lower(plan);
    graph.check();
    INFO(p.label());
    tests::check_same_books(plan, execute_all(plan, graph), simulated_ledgers(plan, graph));
  }
}

TEST_CASE("a LLaMA does exactly what was simulated", "[emulated]") {
  SmallPlan p = tests::layout(2, 2, 2, 3);
  p.llama = true;
  p.tied = false;
  p.recompute = GENERATE("none", "full");
  const Plan plan = p.plan();
  const TaskGraph graph = lower(plan);
  graph.check();
  CHECK(simulated_ledgers(plan, graph) == execute_all(plan, graph));
}

TEST_CASE("six micro-batches over four stages agree too", "[tsan]") {
  SmallPlan p = tests::layout(1, 4, 1, 6);
  p.recompute = GENERATE("none", "full");
  p.schedule = GENERATE("1f1b", "gpipe");
  const Plan plan = p.plan();
  const TaskGraph graph = lower(plan);
  CHECK(simulated_ledgers(plan, graph) == execute_all(plan, graph));
}

TEST_CASE("a collective dropped in the lowering shows in the books") {
  const SmallPlan p = tests::layout(2, 1, 2, 3);
  const Plan plan = p.plan();
  const TaskGraph graph = lower(plan);
  const auto predicted = simulated_ledgers(plan, graph);
  CHECK(execute_all(plan, graph) == predicted);
  CHECK_FALSE(execute_all(plan, without(graph, "block_forward", "fc2_all_reduce")) == predicted);
  CHECK_FALSE(execute_all(plan, without(graph, "optimizer", "norm_all_reduce")) == predicted);
}

TEST_CASE("a rank of an all-reduce receives 2 (n-1) / n of the payload, by the bytes that were copied") {
  const int tensor = GENERATE(2, 4);
  const SmallPlan p = tests::layout(tensor, 1, 1, 2);
  const Plan plan = p.plan();
  const exec::RunResult result = exec::run(plan, lower(plan), HashTokens(p.vocab), tests::run_options());
  std::int64_t payload = 0, received = 0;
  for (const exec::RankBooks& b : result.ranks) {
    const auto& line = b.comm.collectives.at({CollectiveKind::all_reduce, Group::tensor});
    payload = line.payload_bytes;
    received += line.received_bytes;
  }
  CHECK(received == 2 * (tensor - 1) * payload);  // over all n ranks: n times 2 (n-1) / n
}

TEST_CASE("owners of Muon's parameters do what was simulated, and a gather brings each rank what the others own", "[emulated]") {
  SmallPlan p = tests::layout(1, 2, GENERATE(2, 4), 3);
  p.llama = true;
  const char* experts = R"({"training": {"optimizer": "muon"}, "parallel": {"zero_stage": 1, "expert": 2},
                            "model": {"moe": {"num_experts": 4}}})";
  const char* dense = R"({"training": {"optimizer": "muon"}, "parallel": {"zero_stage": 1}})";
  const Plan plan = tests::patched_plan(p, GENERATE_COPY(dense, experts));
  const TaskGraph graph = lower(plan);
  graph.check();
  const exec::RunResult run = exec::run(plan, graph, HashTokens(plan.model.vocab_size), tests::run_options());
  tests::check_same_books(plan, executed_ledgers(run), simulated_ledgers(plan, graph));
  std::int64_t received = 0, weights = 0;
  for (const exec::RankBooks& b : run.ranks)
    received += b.comm.collectives.at({CollectiveKind::all_gather, Group::shard}).received_bytes;
  for (const Program& program : graph.programs)
    for (const Param& param : program.params)
      if (param.replication == Replication::data) weights += bytes_of(plan.training.dtypes.weights, param.elements()).count();
  CHECK(received == (plan.parallel.data - 1) * weights);
}
