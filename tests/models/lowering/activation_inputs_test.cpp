// Inputs of activations that are kept in 8 bits: which tasks cast them, and the bytes that follow, by hand.

#include <algorithm>

#include "models/base/error.hpp"
#include "models/ops/op.hpp"
#include "models/planfile/plan_trained.hpp"
#include "tests/models/lowering/memory_case.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

MemoryCase gated(bool narrow) {
  MemoryCase c;
  c.layers = 2;
  c.model = {{"activation", "swiglu"}};
  if (narrow) c.training["fp8_activation_inputs"] = true;
  return c;
}

MemoryCase experts(bool narrow) {
  MemoryCase c = gated(narrow);
  c.model["moe"] = {{"num_experts", 4}, {"experts_per_token", 2}, {"num_shared_experts", 1}};
  return c;
}

TaskGraph lowered(const MemoryCase& c) {
  TaskGraph graph = lower(c.plan());
  CHECK_NOTHROW(graph.check());
  return graph;
}

/// Bytes of what the last layer keeps of its forward pass of the first micro-batch.
std::int64_t saved(const MemoryCase& c) {
  const TaskGraph graph = lowered(c);
  const StageOf stage(graph, 0);
  return stage.alive(stage.find("block_forward", c.layers - 1, 0, Phase::forward), called("block_saved")) / c.layers;
}

/// Tasks called `name` in templates called `block`.
std::vector<Task> tasks(const TaskGraph& graph, const std::string& block, const std::string& name) {
  std::vector<Task> found;
  for (const Template& t : graph.templates) {
    if (t.name != block) continue;
    std::copy_if(t.tasks.begin(), t.tasks.end(), std::back_inserter(found), [&](const Task& k) { return k.name == name; });
  }
  return found;
}

}  // namespace

TEST_CASE("what a gated activation reads is kept in one byte an element, not in two") {
  const MemoryCase wide = gated(false);
  const std::int64_t rows = wide.seq * wide.batch;
  CHECK(saved(wide) - saved(gated(true)) == rows * 2 * wide.ffn);  // gate and up
}

TEST_CASE("of experts and of those that all tokens share, too") {
  const MemoryCase wide = experts(false);
  const std::int64_t rows = wide.seq * wide.batch;
  CHECK(saved(wide) - saved(experts(true)) == (2 + 1) * rows * 2 * wide.ffn);  // two experts a token and the shared one
}

TEST_CASE("its cast is a kernel, and so is the one back") {
  const MemoryCase c = gated(true);
  const TaskGraph graph = lowered(c), plain = lowered(gated(false));
  const std::int64_t elements = c.seq * c.batch * 2 * c.ffn;
  const std::vector<Task> there = tasks(graph, "block_forward", "fc1_narrow"), back = tasks(graph, "block_backward", "fc1_widen");
  REQUIRE((!there.empty() && !back.empty()));
  const auto is = [&](const Task& task, DType from, DType to) {
    const auto& op = std::get<Accumulate>(task.op);
    return op.elements == elements && op.source == from && op.destination == to && op.overwrite;
  };
  for (const Task& task : there) CHECK(is(task, DType::bf16, DType::fp8));
  for (const Task& task : back) CHECK(is(task, DType::fp8, DType::bf16));
  // Read in two bytes and written in one, and the other way round.
  for (const Task& task : {there[0], back[0]}) CHECK(traffic(task.op, DType::bf16).count() == 3 * elements);
  // The activation and its gradient read what the casts leave in 16 bits.
  CHECK(tasks(graph, "block_forward", "activation").at(0).inputs.at(0).dtype == DType::bf16);
  for (const Task& gradient : tasks(graph, "block_backward", "activation_backward"))
    for (const Operand& in : gradient.inputs) CHECK(in.dtype == DType::bf16);
  for (const char* name : {"fc1_narrow", "fc1_widen"})
    CHECK((tasks(plain, "block_forward", name).empty() && tasks(plain, "block_backward", name).empty()));
}

TEST_CASE("what is computed again is kept nowhere and cast nowhere") {
  MemoryCase c = gated(true), wide = gated(false);
  for (MemoryCase* m : {&c, &wide}) m->training.update({{"recompute", "selective"}, {"recompute_modules", {"mlp"}}});
  CHECK(saved(c) == saved(wide));
  CHECK(tasks(lowered(c), "block_backward", "fc1_widen").empty());
}

TEST_CASE("plans that keep activations' inputs in 8 bits are lowered without a defect in every layout") {
  for (MemoryCase c : {gated(true), experts(true)}) {
    c.micro_batches = 4;
    lowered(c);
    c.training.update({{"recompute", "selective"}, {"recompute_modules", {c.model.contains("moe") ? "moe_activation" : "norm"}}});
    lowered(c);
    c.pipeline = 2;
    for (const char* schedule : {"1f1b", "zb-h1", "dualpipe-v"}) {
      c.parallel["schedule"] = schedule;
      c.layers = 4;
      lowered(c);
    }
    c.training.update({{"recompute", "full"}});
    c.training.erase("recompute_modules");
    c.parallel["schedule"] = "1f1b";
    lowered(c);
  }
}

TEST_CASE("the runtime refuses them by name, and products with scales by blocks") {
  const auto refused = [](const MemoryCase& c) -> std::string {
    try {
      require_trainable(c.plan());
    } catch (const InfeasibleError& e) {
      return e.problems().at(0).field;
    }
    return "";
  };
  CHECK(refused(gated(false)).empty());
  CHECK(refused(gated(true)) == "training.fp8_activation_inputs");
  MemoryCase blocks = gated(false);
  blocks.training["precision"] = "fp8_block";
  CHECK(refused(blocks) == "training.dtypes.compute");
}
