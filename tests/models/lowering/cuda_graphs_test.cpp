// What a host launches as CUDA graphs: host operations of captured tasks, and which plans cannot be captured.

#include <algorithm>

#include "models/graph/task_graph.hpp"
#include "models/plan/stack_facts.hpp"
#include "tests/patched_plan.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

constexpr const char* kMegatron = R"({"stack": "megatron-core", "cluster": {"preset": "dgx-h100"},
  "training": {"precision": "bf16", "dropout": {"hidden": 0, "attention": 0}}})";

Plan plan_of(const std::string& graphs, const SmallPlan& p = {}, const std::string& patch = "{}") {
  auto text = nlohmann::json::parse(p.json());
  text.merge_patch(nlohmann::json::parse(kMegatron));
  text["training"]["cuda_graphs"] = graphs;
  text.merge_patch(nlohmann::json::parse(patch));
  return parse_plan(text.dump(), "graphs.json");
}

std::int64_t operations(const Template& t) {
  std::int64_t all = 0;
  for (const Task& task : t.tasks) all += task.host_operations;
  return all;
}

bool of_block(const Template& t) { return t.name.starts_with("block_"); }

constexpr const char* kExperts =
    R"({"model": {"family": "llama", "moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 16}}})";

}  // namespace

TEST_CASE("a layer's pass is one launch, and all else has the operations it had") {
  SmallPlan p;
  p.pipeline = 2, p.data = 2;
  const TaskGraph plain = lower(plan_of("none", p)), layers = lower(plan_of("layers", p));
  const std::int64_t launch = plan_of("layers", p).stack.facts.graph_launches.layers;
  REQUIRE(plain.templates.size() == layers.templates.size());
  int blocks = 0;
  for (std::size_t t = 0; t < plain.templates.size(); ++t) {
    INFO(plain.templates[t].name);
    if (!of_block(plain.templates[t])) {
      CHECK(operations(plain.templates[t]) == operations(layers.templates[t]));
      continue;
    }
    ++blocks;
    CHECK(operations(plain.templates[t]) > 10 * launch);
    CHECK(operations(layers.templates[t]) == launch);
    CHECK(layers.templates[t].tasks.front().host_operations == launch);
  }
  CHECK(blocks == 3);  // forward, the first micro-batch's backward and the others'
}

TEST_CASE("experts that get as many rows as tokens choose are launched one by one between two graphs") {
  const SmallPlan p;
  const Plan dropless = plan_of("layers", p, kExperts);
  const std::int64_t launch = dropless.stack.facts.graph_launches.layers;
  const HostOperations alone = dropless.stack.facts.host_operations;
  int between = 0;
  for (const Template& t : lower(dropless).templates) {
    if (!of_block(t)) continue;
    INFO(t.name);
    const auto expert = [](const Task& task) {
      return std::holds_alternative<GroupedMatMul>(task.op) || std::holds_alternative<GroupedWeightGrad>(task.op) ||
             std::holds_alternative<MoeDispatch>(task.op) || std::holds_alternative<MoeDispatchBackward>(task.op) ||
             std::holds_alternative<MoeCombine>(task.op) || std::holds_alternative<MoeCombineBackward>(task.op);
    };
    const auto first = std::find_if(t.tasks.begin(), t.tasks.end(), expert);
    const auto last = std::find_if(t.tasks.rbegin(), t.tasks.rend(), expert).base();
    REQUIRE((first < last && last != t.tasks.end()));
    between += first != t.tasks.begin();
    if (first != t.tasks.begin()) {  // a backward pass begins with the experts
      CHECK(t.tasks.front().host_operations == launch);
      CHECK(std::all_of(t.tasks.begin() + 1, first, [](const Task& task) { return task.host_operations == 0; }));
    }
    CHECK(std::all_of(first, last, [&](const Task& task) { return task.host_operations == alone.of(kind_name(task.op), 0); }));
    CHECK(last->host_operations == launch);
    CHECK(std::all_of(last + 1, t.tasks.end(), [](const Task& task) { return task.host_operations == 0; }));
  }
  CHECK(between > 0);
  const Plan capacity = plan_of("layers", p, R"({"model": {"family": "llama", "moe": {"num_experts": 4, "experts_per_token": 2,
                                                  "ffn_hidden_size": 16, "capacity_factor": 1}}})");
  for (const Template& t : lower(capacity).templates)
    if (of_block(t)) CHECK(operations(t) == launch);  // rows are a fixed number
}

TEST_CASE("an iteration is one launch a stage but for the optimizer, and its host waits for nothing that arrives") {
  SmallPlan p;
  p.pipeline = 2, p.data = 2;
  const auto patch = R"({"parallel": {"zero_stage": 1, "overlap_p2p": false}})";
  const TaskGraph plain = lower(plan_of("none", p, patch)), graph = lower(plan_of("iteration", p, patch));
  graph.check();
  const std::int64_t launch = plan_of("iteration", p).stack.facts.graph_launches.iteration;
  for (std::size_t s = 0; s < graph.programs.size(); ++s) {
    const Program &before = plain.programs[s], &program = graph.programs[s];
    REQUIRE(before.instances.size() == program.instances.size());
    std::int64_t captured = 0, apart = 0, expected = 0;
    for (std::size_t i = 0; i < program.instances.size(); ++i) {
      const Instance& instance = program.instances[i];
      const bool update = instance.phase == Phase::optimizer || instance.phase == Phase::gather;
      (update ? apart : captured) += operations(graph.of(instance));
      if (update) expected += operations(plain.of(before.instances[i]));
      if (!update) CHECK_FALSE(graph.of(instance).host_waits);
      CHECK(graph.of(instance).name == plain.of(before.instances[i]).name);
    }
    CHECK(captured == launch);
    CHECK(operations(graph.of(program.instances.front())) == launch);
    CHECK(apart == expected);
    CHECK(apart > 0);
    CHECK(before.memory.arena_bytes == program.memory.arena_bytes);
  }
}

TEST_CASE("experts of a capacity are captured in an iteration by every stack that has graphs") {
  const auto stack = GENERATE(std::string("tandem"), std::string("megatron-core"));
  CHECK_NOTHROW(plan_of("iteration", {}, R"({"stack": ")" + stack + R"(", "model": {"family": "llama", "moe": {"num_experts": 4,
                                           "experts_per_token": 2, "ffn_hidden_size": 16, "capacity_factor": 1}}})"));
}

TEST_CASE("what cannot be captured is refused with what would work") {
  struct Case { const char *graphs, *patch, *reason; };
  const auto c = GENERATE(values<Case>({
      {"layers", R"({"training": {"recompute": "full"}})", "holds no full recomputation"},
      {"layers", R"({"training": {"recompute": "selective", "dropout": {"attention": 0.1}}})", "may have no dropout"},
      {"iteration", kExperts, "is known on the host"},
      {"iteration", R"({"stack": "tandem", "model": {"family": "llama", "moe": {"num_experts": 4, "experts_per_token": 2,
                        "ffn_hidden_size": 16}}})", "is known when tokens have chosen"},
      {"layers", R"({"stack": "pytorch-ddp"})", "has nothing of CUDA graphs"},
  }));
  CAPTURE(c.patch);
  try {
    plan_of(c.graphs, {}, c.patch);
    FAIL("not refused");
  } catch (const InfeasibleError& e) {
    REQUIRE(e.problems().size() == 1);
    CHECK(e.problems().front().message().find(c.reason) != std::string::npos);
    CHECK(e.problems().front().field == "training.cuda_graphs");
  }
  CHECK_NOTHROW(plan_of("none", {}, c.patch));
}
