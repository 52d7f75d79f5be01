// Which kernels of attention a plan is said to run: those of its graph.

#include "models/planfile/attention_kernels.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/graph/task_graph.hpp"
#include "models/planfile/plan_advice.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

const json kNone = json::object();

/// A plan on GPUs whose heads of 16 cuDNN computes, unless `model` or `training` say otherwise.
Plan plan_of(const json& model, const json& training = kNone, const json& parallel = kNone) {
  json plan = {{"model", {{"family", "llama"}, {"num_layers", 2}, {"hidden_size", 64}, {"num_attention_heads", 4}, {"vocab_size", 64}}},
               {"training", {{"seq_length", 32}, {"micro_batch_size", 1}, {"global_batch_size", 1}, {"precision", "bf16"},
                             {"flash_attention", true}, {"fusion", "tandem-cuda"}}},
               {"parallel", parallel},
               {"cluster", {{"preset", "dgx-h100"}, {"devices", parallel.value("context", 1)}}},
               {"stack", "tandem"}};
  plan["model"].update(model);
  plan["training"].update(training);
  return parse_plan(plan.dump(), "kernels.json");
}

AttentionKernels in_graph(const Plan& plan) {
  AttentionKernels out;
  for (const Template& t : lower(plan).templates)
    for (const Task& task : t.tasks) {
      if (const auto* o = std::get_if<FlashAttention>(&task.op)) out.forward.insert(o->kernel);
      if (const auto* o = std::get_if<FlashAttentionBackward>(&task.op)) out.backward.insert(o->kernel);
    }
  return out;
}

bool tells(const Plan& plan, const std::string& beginning) {
  const std::vector<std::string> notes = plan_advice(plan);
  return std::ranges::any_of(notes, [&](const std::string& note) { return note.starts_with(beginning); });
}

const json kWindow = {{"window", {{"size", 8}}}}, kSomeWindows = {{"window", {{"size", 8}, {"layers", "wf"}}}};

}  // namespace

TEST_CASE("the kernels that a plan is said to run are those of its graph") {
  std::vector<Plan> plans{plan_of(kNone), plan_of(kWindow), plan_of(kSomeWindows), plan_of({{"window", {{"size", 32}}}}),
                          plan_of({{"position_embedding", "alibi"}}), plan_of({{"head_dim", 20}}), plan_of({{"value_dim", 8}}),
                          plan_of({{"attention_soft_cap", 50.0}}), plan_of({{"attention_sinks", true}}),
                          plan_of(kNone, {{"precision", "fp32"}}), plan_of(kNone, {{"flash_attention", false}}),
                          plan_of(kNone, {{"dropout", {{"hidden", 0.0}, {"attention", 0.1}}}}), plan_of(kWindow, {{"fusion", "megatron"}})};
  for (const char* mode : {"ring", "all_gather", "ulysses"}) plans.push_back(plan_of(kNone, kNone, {{"context", 2}, {"context_mode", mode}}));
  for (const Plan& plan : plans) {
    CAPTURE(to_json(plan, -1));
    const AttentionKernels said = attention_kernels(plan, plan.training.attention_kernel), run = in_graph(plan);
    CHECK(said.forward == run.forward);
    CHECK(said.backward == run.backward);
  }
}

TEST_CASE("a plan all of whose attention has Tandem's own kernel names it, and is told that another changes nothing") {
  CHECK(plan_of(kNone).training.attention_kernel == AttentionKernel::tuned);
  CHECK(plan_of(kWindow).training.attention_kernel == AttentionKernel::own);
  CHECK(plan_of(kSomeWindows).training.attention_kernel == AttentionKernel::tuned);
  CHECK(plan_of({{"attention_sinks", true}}).training.attention_kernel == AttentionKernel::tuned);  // its backward pass is cuDNN's
  const json flash2 = {{"attention_kernel", "flash2"}};
  CHECK(tells(plan_of(kWindow, flash2), "training.attention_kernel"));
  CHECK_FALSE(tells(plan_of(kNone, flash2), "training.attention_kernel"));
  CHECK_FALSE(tells(plan_of(kWindow, {{"attention_kernel", "own"}}), "training.attention_kernel"));
}

TEST_CASE("facts of Tandem's own kernel are in use where it runs, and those of FlashAttention 2 are not") {
  for (const char* fact : {"h100.json: flash_attention.fill", "h100.json: tuned_attention.fill"}) CHECK(is_unused_fact(fact, plan_of(kWindow)));
  CHECK_FALSE(is_unused_fact("h100.json: own_attention.fill", plan_of(kWindow)));
  CHECK(is_unused_fact("h100.json: own_attention.fill", plan_of(kNone)));
  for (const char* fact : {"tuned_attention.fill", "own_attention.fill"}) CHECK_FALSE(is_unused_fact(fact, plan_of(kSomeWindows)));
}
