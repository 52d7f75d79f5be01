// The numeric contract of stack tandem in the graph, whatever the plan, and that other stacks have none.

#include <nlohmann/json.hpp>

#include "models/graph/task_graph.hpp"
#include "tests/catch.hpp"
#include "tests/odd_stack.hpp"
#include "tests/stacks.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

constexpr const char* kPlan = R"({
  "model": {"family": "gpt", "num_layers": 4, "hidden_size": 24, "num_attention_heads": 4, "ffn_hidden_size": 40,
            "vocab_size": 37, "pad_vocab_to": 16},
  "parallel": {"tensor": 2, "data": 2},
  "training": {"seq_length": 8, "micro_batch_size": 1, "global_batch_size": 6, "dropout": {"hidden": 0.1}, "precision": "bf16"},
  "cluster": {"preset": "cpu-host", "devices": 4}})";

const std::vector<const char*> kVariants = {
    "{}",
    R"({"training": {"precision": "fp16"}})",
    R"({"model": {"family": "llama", "num_kv_heads": 2}, "training": {"flash_attention": true}})",
    R"({"model": {"family": "llama", "num_kv_heads": 1}, "parallel": {"sequence_parallel": true}})",
    R"({"model": {"family": "bert", "vocab_size": 38}})",
    R"({"model": {"family": "bert", "vocab_size": 38, "norm_placement": "post_add"}})",
    R"({"model": {"family": "bloom"}, "training": {"recompute": "full"}})",
    R"({"model": {"family": "t5"}})",
    R"({"model": {"family": "t5", "position_embedding": "learned"}, "training": {"flash_attention": true}})",
    R"({"model": {"moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 16, "capacity_factor": 1}}})",
    R"({"model": {"moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 16}}, "parallel": {"expert": 2}})",
    R"({"model": {"moe": {"num_experts": 4, "num_shared_experts": 1, "ffn_hidden_size": 16}},
        "parallel": {"tensor": 1, "pipeline": 2, "schedule": "zb-h1"}})",
    R"({"parallel": {"tensor": 1, "pipeline": 2, "schedule": "zb-h1", "zero_stage": 2}})",
    R"({"parallel": {"zero_stage": 3}})",
    R"({"parallel": {"context": 2, "data": 1}, "training": {"flash_attention": true}})",
    R"({"training": {"fusion": "eager"}})",
    R"({"training": {"fusion": "megatron"}})",
    R"({"training": {"fusion": "transformer-engine"}})",
    R"({"model": {"family": "llama"}, "training": {"fusion": "compiled"}})"};

Plan plan_of(const char* variant) {
  json plan = json::parse(kPlan);
  plan.merge_patch(json::parse(variant));
  return parse_plan(plan.dump(), "numerics");
}

/// Types of the tensors that the contract speaks of, as the tasks of a graph name them.
class Classes {
 public:
  explicit Classes(const TaskGraph& graph) {
    for (const Template& t : graph.templates)
      for (const Task& task : t.tasks) {
        task_ = &task;
        std::visit([&](const auto& op) { see(op); }, task.op);
        if (const auto* add = std::get_if<Accumulate>(&task.op); add && t.slots[task.outputs[0].slot].kind == MemoryKind::gradients)
          if (!add->overwrite && is_scratch(task.inputs[0])) gradients.insert(add->source);
      }
  }

  std::set<DType> statistics, loss_sums, router, gradients;

 private:
  static bool is_scratch(const Operand& o) { return o.slot == 0; }
  DType in(std::size_t i) const { return task_->inputs[i].dtype; }
  DType out(std::size_t i) const { return task_->outputs[i].dtype; }

  void see(const auto&) {}
  void see(const LayerNorm&) { statistics.insert(out(1)); }
  void see(const LayerNormBackward&) { statistics.insert(in(2)); }
  void see(const BiasDropoutAddNorm&) { statistics.insert(out(2)); }
  void see(const FlashAttention&) { statistics.insert(out(1)); }
  void see(const FlashAttentionBackward&) { statistics.insert(in(4)); }
  void see(const VocabMax&) { loss_sums.insert(out(0)); }
  void see(const VocabExpSum&) { loss_sums.insert({in(1), out(0)}); }
  void see(const CrossEntropy& o) {
    if (!o.one_kernel) loss_sums.insert({in(1), in(2)});
  }
  void see(const TopKRouter&) { router.insert({in(0), out(0), out(1)}); }
  void see(const TopKRouterBackward&) { router.insert({in(0), in(1), in(2), in(5), out(0)}); }
  void see(const MoeCombine&) { router.insert(in(2)); }
  void see(const MoeCombineBackward&) { router.insert({in(3), out(1)}); }

  const Task* task_ = nullptr;
};

bool all_in(const std::set<DType>& types, DType t) { return types.empty() || types == std::set<DType>{t}; }

}  // namespace

TEST_CASE("statistics, sums of the loss, routers and gradients of parameters are fp32 beside narrow activations") {
  const char* variant = GENERATE(from_range(kVariants));
  CAPTURE(variant);
  const Plan plan = plan_of(variant);
  const TaskGraph graph = lower(plan);
  graph.check();
  const Classes found(graph);
  CHECK_FALSE(found.statistics.empty());
  CHECK_FALSE((found.loss_sums.empty() && !plan.training.fusion.one_kernel_loss));
  CHECK(found.router.empty() == (plan.model.moe.num_experts == 0));
  CHECK(all_in(found.statistics, DType::fp32));
  CHECK(all_in(found.loss_sums, DType::fp32));
  CHECK(all_in(found.router, DType::fp32));
  CHECK(all_in(found.gradients, DType::fp32));
}

TEST_CASE("every micro-batch's gradient of a parameter has the type of the accumulated one") {
  const char* variant = GENERATE(from_range(kVariants));
  CAPTURE(variant);
  Plan plan = plan_of(variant);
  plan.training.dtypes.gradients = plan.training.dtypes.gradient_reduce = plan.training.dtypes.compute;
  CHECK(all_in(Classes(lower(plan)).gradients, plan.training.dtypes.compute));
}

TEST_CASE("stacks whose file says nothing of it keep these tensors as narrow as activations") {
  for (const char* stack : {"megatron-core", "pytorch-fsdp"}) {
    const Classes found(lower(tests::under(plan_of(kVariants[9]), stack)));
    for (const auto& types : {found.statistics, found.loss_sums, found.router, found.gradients}) CHECK(all_in(types, DType::bf16));
  }
}

TEST_CASE("with wide activations the contract changes no type") {
  for (const char* precision : {"fp32", "fp64"}) {
    json patch = json::parse(kVariants[9]);
    patch["training"]["precision"] = precision;
    const Classes found(lower(plan_of(patch.dump().c_str())));
    for (const auto& types : {found.statistics, found.loss_sums, found.router, found.gradients})
      CHECK(all_in(types, *dtype_from_name(precision)));
  }
}

TEST_CASE("a stack says which classes of tensors are wide, and a defect of its list is refused") {
  const auto read = [](const std::string& list) {
    Plan plan = plan_of("{}");
    return tests::with_odd_stack("wide_tensors", list, [&] {
      tests::set_stack(plan, "odd");
      const WideTensors& w = plan.stack.facts.wide_tensors;
      return std::string(w.statistics ? "s" : "") + (w.loss_sums ? "l" : "") + (w.router ? "r" : "") + (w.parameter_gradient ? "g" : "");
    });
  };
  const auto entry = [](const json& more) {
    json e = {{"statistics", true}, {"loss_sums", false}, {"router", true}, {"parameter_gradient", false}, {"source", "s"}, {"verified", true}};
    e.update(more);
    return json::array({e}).dump();
  };
  CHECK(read(entry(json::object())) == "sr");
  CHECK(read("[]").empty());
  CHECK(read(entry({{"loss_sums", 1}})) == "loss_sums is neither true nor false");
  CHECK(read(R"([{"statistics": true, "source": "s", "verified": true}])") == "an entry lacks loss_sums");
}
