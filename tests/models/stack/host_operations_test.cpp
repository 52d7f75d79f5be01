// Host operations of tasks: what stacks' files say, and how a graph gets it.

#include <algorithm>

#include "models/base/presets.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "models/plan/stack_facts.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "tests/odd_stack.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::test;

namespace {

Plan odd_plan() {
  return tests::under(parse_plan(kGoodPlan, "good.json"), "odd");
}

}  // namespace

TEST_CASE("a task has the host operations of its kind, and more for each parameter of its stage") {
  const tests::OddStack stack("host_operations", R"([{"otherwise": 9, "when": {"training.seq_length": {"min": 1000000}}, "source": "s", "verified": true},
    {"otherwise": 2, "tasks": {"matmul": 7, "collective": 3}, "per_parameter": {"adamw": 4}, "source": "s", "verified": true}])");
  const TaskGraph graph = lower(odd_plan());
  std::int64_t products = 0, collectives = 0, updates = 0, others = 0;
  for (const Program& p : graph.programs)
    for (const Instance& i : p.instances)
      for (const Task& task : graph.of(i).tasks) {
        INFO(task.name);
        const bool product = std::holds_alternative<MatMul>(task.op), collective = std::holds_alternative<Collective>(task.op);
        const bool update = std::holds_alternative<AdamW>(task.op);
        products += product, collectives += collective, updates += update, others += !product && !collective && !update;
        CHECK(task.host_operations == (product ? 7 : collective ? 3 : update ? 2 + 4 * p.params.size() : 2));
      }
  CHECK(products > 0);
  CHECK(collectives > 0);
  CHECK(updates == static_cast<std::int64_t>(graph.programs.size()));
  CHECK(others > 0);
}

TEST_CASE("an update of a hundred parameters and more has all of their host operations") {
  const tests::OddStack stack("host_operations", R"([{"otherwise": 2, "per_parameter": {"adamw": 1000}, "source": "s", "verified": true}])");
  Plan plan = parse_plan(bent("\"num_layers\": 8", "\"num_layers\": 16"), "deep.json");
  tests::set_stack(plan, "odd");
  const TaskGraph graph = lower(plan);
  for (const Program& p : graph.programs) {
    REQUIRE(p.params.size() > 65);
    const Template& update = graph.of(p.instances.back());
    const auto updates = [](const Task& t) { return std::holds_alternative<AdamW>(t.op); };
    const auto adamw = std::find_if(update.tasks.begin(), update.tasks.end(), updates);
    REQUIRE(adamw != update.tasks.end());
    CHECK(adamw->host_operations == 2 + 1000 * p.params.size());
  }
}

TEST_CASE("what an entry adds under conditions joins its counts, of kinds that it lists and of others") {
  const tests::OddStack stack("host_operations", R"([{"otherwise": 2, "tasks": {"matmul": 7}, "source": "s", "verified": true, "more": [
    {"tasks": {"matmul": 3, "collective": 4}, "when": {"training.precision": {"allowed": ["fp8"]}},
     "source": "s", "verified": true},
    {"tasks": {"matmul": 1}, "per_parameter": {"adamw": 3}, "source": "s", "verified": true}]}])");
  Plan plan = odd_plan();
  const Op product = MatMul{}, collective = Collective{}, update = AdamW{};
  const auto of = [&](const Op& op) { return tests::under(plan, "odd").stack.facts.host_operations.of(kind_name(op), 0); };
  plan.training.precision = "bf16";
  CHECK(of(product) == 8);
  CHECK(of(collective) == 2);
  plan.training.precision = "fp8";
  CHECK(of(product) == 11);
  CHECK(of(collective) == 6);
  CHECK(of(update) == 2);
  CHECK(tests::under(plan, "odd").stack.facts.host_operations.of("adamw", 10) == 32);
}

TEST_CASE("a stack that says nothing of its host has one operation for a task") {
  const Plan plan = parse_plan(kGoodPlan, "good.json");
  REQUIRE(plan.stack.name == "tandem");
  for (const Template& t : lower(plan).templates)
    for (const Task& task : t.tasks) CHECK(task.host_operations == 1);
}

TEST_CASE("a table of host operations that is not of its form is refused") {
  const auto [entries, wrong] = GENERATE(table<std::string, std::string>({
      {R"({})", "is not a list"},
      {R"([{"otherwise": 2, "verified": true}])", "an entry lacks source"},
      {R"([{"otherwise": 2, "source": "s"}])", "an entry lacks verified"},
      {R"([{"otherwise": 0, "source": "s", "verified": true}])", "no whole number from 1"},
      {R"([{"otherwise": 2.5, "source": "s", "verified": true}])", "no whole number from 1"},
      {R"([{"otherwise": 2, "tasks": {"matmul": 1001}, "source": "s", "verified": true}])", "no whole number from 1"},
      {R"([{"otherwise": 2, "tasks": {"gemm": 3}, "source": "s", "verified": true}])", "is no kind of task"},
      {R"([{"otherwise": 2, "tasks": [], "source": "s", "verified": true}])", "tasks is no object"},
      {R"([{"otherwise": 2, "task": {}, "source": "s", "verified": true}])", "is no key of an entry"},
      {R"([{"otherwise": 2, "update_recorded": 1, "source": "s", "verified": true}])", "neither true nor false"},
      {R"([{"otherwise": 2, "more": {}, "source": "s", "verified": true}])", "more is no list"},
      {R"([{"otherwise": 2, "more": [{"tasks": {}, "source": "s"}], "source": "s", "verified": true}])", "an entry lacks verified"},
      {R"([{"otherwise": 2, "more": [{"tasks": {"gemm": 3}, "source": "s", "verified": true}], "source": "s", "verified": true}])",
       "is no kind of task"},
      {R"([{"otherwise": 2, "when": {"absent": {"min": 1}}, "source": "s", "verified": true}])", "no field \"absent\""},
  }));
  tests::check_refused("host_operations", entries, wrong, [] { odd_plan(); });
}

TEST_CASE("the table of every stack is read") {
  for (const std::string& name : preset_names("models/stacks")) {
    INFO(name);
    CHECK_NOTHROW(tests::under(parse_plan(kGoodPlan, "good.json"), name));
  }
}

TEST_CASE("a stack whose host works for each parameter under AdamW does so under SGD, and no less under LAMB") {
  int with = 0;
  for (const std::string& name : preset_names("models/stacks")) {
    INFO(name);
    const HostOperations host = tests::under(parse_plan(kGoodPlan, "good.json"), name).stack.facts.host_operations;
    const auto of = [&](std::string_view kind) { return host.of(kind, 100); };
    const std::int64_t adamw = of("adamw"), lamb = of("layerwise_moments") + of("layerwise_apply");
    CHECK(lamb >= adamw);
    if (!host.per_parameter.contains("adamw")) continue;
    ++with;
    CHECK(of("sgd") > 100);
    CHECK(of("sgd") <= adamw);
  }
  CHECK(with >= 3);
}

// Calls of PyTorch 2.15 under torch.utils._python_dispatch, in the second step: without foreach 1, 2, 3 or 4 for each of five
// parameters, with foreach as many for all. The profiler's record of the step is one more.
TEST_CASE("an update by SGD has the calls of torch/optim/sgd.py, with and without decay and momentum") {
  const auto [decay, momentum, calls] = GENERATE(table<double, double, std::int64_t>(
      {{0, 0, 1}, {0.1, 0, 2}, {0, 0.9, 3}, {0.1, 0.9, 4}}));
  Plan plan = parse_plan(kGoodPlan, "good.json");
  plan.training.optimizer.weight_decay = decay, plan.training.optimizer.momentum = momentum;
  const auto of = [&](const char* stack) {
    const HostOperations host = tests::under(plan, stack).stack.facts.host_operations;
    return host.of("sgd", 100) - host.of("sgd", 0);
  };
  for (const char* stack : {"neuronx", "neuron-megatron"}) CHECK(of(stack) == 100 * calls);  // XLA's tensors have no foreach
  constexpr std::int64_t kAround = 4;  // the step, its record, the function, the sorting by device and type
  for (const char* stack : {"pytorch-ddp", "pytorch-fsdp", "torchtitan"}) {
    CHECK(of(stack) == 0);
    CHECK(tests::under(plan, stack).stack.facts.host_operations.of("sgd", 100) == kAround + calls);
  }
}

TEST_CASE("where the update is recorded its first task has all operations behind the last pass, and passes keep theirs") {
  const std::string form = R"([{"otherwise": 2, "per_parameter": {"adamw": 3}, "source": "s", "verified": true)";
  const auto lowered = [](const std::string& entries) {
    const tests::OddStack stack("host_operations", entries);
    return lower(odd_plan());
  };
  const TaskGraph streamed = lowered(form + "}]"), recorded = lowered(form + R"(, "update_recorded": true}])");
  REQUIRE(recorded.programs.size() == streamed.programs.size());
  for (std::size_t s = 0; s < streamed.programs.size(); ++s) {
    const auto &before = streamed.programs[s].instances, &after = recorded.programs[s].instances;
    REQUIRE(before.size() == after.size());
    const auto is_pass = [](const Instance& i) {
      return i.phase == Phase::forward || i.phase == Phase::backward || i.phase == Phase::recompute;
    };
    const auto tail = static_cast<std::size_t>(std::find_if(before.rbegin(), before.rend(), is_pass).base() - before.begin());
    REQUIRE(tail < before.size());
    std::uint32_t all = 0, first = 0, others = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const auto &tasks = streamed.of(before[i]).tasks, &own = recorded.of(after[i]).tasks;
      REQUIRE(tasks.size() == own.size());
      for (std::size_t t = 0; t < tasks.size(); ++t) {
        if (i < tail) CHECK(own[t].host_operations == tasks[t].host_operations);
        else all += tasks[t].host_operations, (i == tail && t == 0 ? first : others) += own[t].host_operations;
      }
    }
    CHECK(first == all);
    CHECK(others == 0);
  }
}
