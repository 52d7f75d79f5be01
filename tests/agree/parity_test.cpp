// Every layout trains like one rank, within rounding. generated.cpp asks the same of every feature, bitwise.cpp more.

#include "models/fields/fusion_file.hpp"
#include "tests/agree/closeness.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/backends.hpp"
#include "tests/catch.hpp"
#include "tests/stacks.hpp"

using namespace tandem;
using exec::RunResult;
using tests::SmallPlan;
using tests::check_equal;
using tests::gradient_error;
using tests::loss_error;
using tests::train;

namespace {

constexpr int kSteps = 3;

SmallPlan one_rank(SmallPlan p) {
  SmallPlan one = tests::layout(1, 1, 1, p.micro_batches * p.data);
  one.precision = p.precision;
  one.tied = p.tied;
  one.bloom = p.bloom;
  one.llama = p.llama;
  return one;
}

}  // namespace

TEST_CASE("every layout trains like one rank in fp64, to rounding") {
  const RunResult one = train(one_rank(tests::layouts().front()), kSteps);
  CHECK(one.steps.front().grad_norm > tests::SmallPlan{}.clip_grad);  // clipping is at work
  for (const SmallPlan& p : tests::layouts()) {
    const RunResult run = train(p, kSteps);
    INFO(p.label());
    CHECK(loss_error(run, one) <= 1e-12);
    CHECK(gradient_error(run, one) <= 1e-12);
  }
}

TEST_CASE("every layout trains like one rank in fp32, to rounding", "[emulated]") {
  SmallPlan reference = tests::layouts().front();
  reference.precision = "fp32";
  const RunResult one = train(one_rank(reference), kSteps);
  for (SmallPlan p : tests::layouts()) {
    p.precision = "fp32";
    const RunResult run = train(p, kSteps);
    INFO(p.label());
    CHECK(loss_error(run, one) <= 2e-6);
    CHECK(gradient_error(run, one) <= 1e-5);
  }
}

TEST_CASE("a tied matrix whose uses' gradients are added before data ranks reduce them trains like one rank") {
  SmallPlan p = tests::layout(GENERATE(1, 2), 1, 2, 6);
  p.overlap = GENERATE(false, true);
  const RunResult one = train(one_rank(p), kSteps);
  for (const char* stack : {"pytorch-ddp", "megatron-core"})
    for (const int zero_stage : {0, 1}) {
      Plan plan = p.plan();
      plan.parallel.zero_stage = zero_stage;
      tests::set_stack(plan, stack);
      const TaskGraph graph = lower(plan);
      graph.check();
      const RunResult run = train(plan, graph, kSteps);
      INFO(p.label() << " " << stack << " ZeRO " << zero_stage);
      CHECK(loss_error(run, one) <= 1e-12);
      CHECK(gradient_error(run, one) <= 1e-12);
    }
}

TEST_CASE("untied output, ALiBi and embedding norm train alike on every layout") {
  for (SmallPlan p : {tests::layout(2, 2, 2, 2), tests::layout(1, 4, 1, 4), tests::layout(4, 1, 2, 2)}) {
    p.tied = GENERATE(true, false);
    p.bloom = GENERATE(true, false);
    const RunResult one = train(one_rank(p), kSteps), run = train(p, kSteps);
    INFO(p.label());
    CHECK(loss_error(run, one) <= 1e-12);
    CHECK(gradient_error(run, one) <= 1e-12);
  }
}

TEST_CASE("LLaMA blocks with grouped queries train alike on every layout, and bit for bit on pipelines", "[emulated]") {
  SmallPlan p = tests::layout(1, 1, 1, 4);
  p.llama = true;
  p.tied = false;
  const RunResult one = train(p, kSteps);
  for (const auto& [tensor, pipeline, data] : {std::tuple{2, 1, 1}, {1, 2, 2}, {2, 2, 2}, {1, 4, 1}, {1, 1, 4}}) {
    SmallPlan q = tests::layout(tensor, pipeline, data, 4 / data);
    q.llama = true;
    q.tied = false;
    q.recompute = pipeline == 2 ? "full" : "none";
    q.overlap = data == 2;
    const RunResult run = train(q, kSteps);
    INFO(q.label());
    CHECK(loss_error(run, one) <= 1e-12);
    CHECK(gradient_error(run, one) <= 1e-12);
    if (tensor * data == 1 || data == 4) check_equal(run, one);
  }
}

TEST_CASE("every layout trains with CUDA's fused kernels like one rank without any, to rounding", "[emulated]") {
  for (const char* precision : {"fp64", "fp32"}) {
    const bool wide = std::string(precision) == "fp64";
    SmallPlan reference = tests::layouts().front();
    reference.precision = precision;
    const RunResult one = train(one_rank(reference), kSteps);
    for (SmallPlan p : tests::layouts()) {
      p.precision = precision;
      Plan plan = p.plan();
      plan.training.fusion = fusion_set("tandem-cuda");
      const TaskGraph graph = lower(plan);
      graph.check();
      const RunResult run = train(plan, graph, kSteps);
      INFO(p.label() << " " << precision);
      CHECK(loss_error(run, one) <= (wide ? 1e-12 : 2e-6));
      CHECK(gradient_error(run, one) <= (wide ? 1e-12 : 1e-5));
    }
  }
}

TEST_CASE("an all-reduce dropped in the lowering changes the gradients") {
  const SmallPlan p = tests::layout(2, 1, 1, 2);
  const Plan plan = p.plan();
  TaskGraph graph = lower(plan);
  for (Template& t : graph.templates)
    for (Task& task : t.tasks)
      if (t.name == "block_backward" && task.name == "fc1_dgrad_all_reduce")
        std::get<Collective>(task.op).elements = task.inputs[0].elements = task.outputs[0].elements = 1;
  exec::RunOptions options = tests::run_options();
  options.gather_gradients = true;
  const RunResult broken = exec::run(plan, graph, tests::HashTokens(p.vocab), options);
  CHECK(gradient_error(broken, train(one_rank(p), 1)) > 1e-3);
}
