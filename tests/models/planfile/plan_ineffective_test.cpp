// Fields that change nothing beside the others are told.

#include <nlohmann/json.hpp>

#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;

namespace {

std::vector<std::string> told(const std::string& part, const std::string& fields) {
  return parse_plan(test::with(part, fields), "plan.json").ineffective;
}

}  // namespace

TEST_CASE("a field that changes nothing is told with its reason, and only then") {
  struct Case {
    const char *part, *idle, *effective;
  };
  const auto c = GENERATE(values<Case>({
      {"model", R"("position_embedding": "learned", "rope_theta": 5e5)", R"("position_embedding": "rope", "rope_theta": 5e5)"},
      {"model", R"("position_embedding": "learned", "rotary_fraction": 0.5)", R"("position_embedding": "rope", "rotary_fraction": 0.5)"},
      {"model", R"("position_embedding": "rope", "rope_scaling": {"factor": 8})",
       R"("position_embedding": "rope", "rope_scaling": {"type": "linear", "factor": 8})"},
      {"model", R"("position_embedding": "rope", "rope_scaling": {"type": "linear", "original_max_position_embeddings": 2048})",
       R"("position_embedding": "rope", "rope_scaling": {"type": "yarn", "original_max_position_embeddings": 2048})"},
      {"model", R"("normalization": "rmsnorm", "norm_bias": false)", R"("norm_bias": false)"},
      {"model", R"("position_embedding": "learned", "qk_norm": "l2")", R"("position_embedding": "rope", "qk_norm": "l2")"},
      {"model", R"("family": "bert", "output_bias": true)", R"("output_bias": true)"},
      {"model", R"("linear_bias": false, "moe": {"num_experts": 4, "shared_gate": true})",
       R"("linear_bias": false, "moe": {"num_experts": 4, "num_shared_experts": 1, "shared_gate": true})"},
      {"model", R"("mtp": {"loss_scale": 0.3})", R"("position_embedding": "rope", "mtp": {"num_layers": 1, "loss_scale": 0.3})"},
      {"model", R"("window": {"layers": "wf"})", R"("window": {"size": 4, "layers": "wf"})"},
      {"model", R"("position_embedding": "learned", "window": {"size": 4, "rope_theta": 100})",
       R"("position_embedding": "rope", "window": {"size": 4, "rope_theta": 100})"},
      {"model", R"("latent": {"query_rank": 4})", R"("head_dim": 12, "latent": {"kv_rank": 8, "query_rank": 4, "rotary_dim": 4})"},
      {"model", R"("indexer": {"topk": 4})",
       R"("head_dim": 12, "latent": {"kv_rank": 8, "query_rank": 4, "rotary_dim": 4}, "indexer": {"heads": 2, "topk": 4})"},
      {"model", R"("head_dim": 12, "latent": {"kv_rank": 8, "query_rank": 4, "rotary_dim": 4}, "indexer": {"heads": 2, "topk": 4096})",
       R"("head_dim": 12, "latent": {"kv_rank": 8, "query_rank": 4, "rotary_dim": 4}, "indexer": {"heads": 2, "topk": 4})"},
      {"model", R"("indexer": {"block_size": 4})", R"("indexer": {"heads": 8, "topk": 8, "block_size": 4})"},
      {"model", R"("position_embedding": "rope", "rope_scaling": {"type": "linear", "factor": 2, "beta_fast": 16})",
       R"("position_embedding": "rope", "rope_scaling": {"type": "yarn", "factor": 2, "beta_fast": 16})"},
      {"model", R"("position_embedding": "rope", "rope_scaling": {"type": "linear", "factor": 2, "truncate": false})",
       R"("position_embedding": "rope", "rope_scaling": {"type": "yarn", "factor": 2, "truncate": false})"},
      {"model", R"("position_embedding": "rope", "window": {"layers": "w", "full_rotary": false})",
       R"("position_embedding": "rope", "window": {"layers": "wf", "full_rotary": false})"},
      {"model", R"("position_embedding": "rope", "window": {"layers": "wf", "full_rotary": false, "chunked": true})",
       R"("position_embedding": "rope", "window": {"layers": "wf", "full_rotary": false, "size": 4, "chunked": true})"},
      {"model", R"("position_embedding": "rope", "rope_scaling": {"type": "linear", "factor": 2, "mscale_all_dim": 1})",
       R"("position_embedding": "rope", "rope_scaling": {"type": "yarn", "factor": 2, "mscale_all_dim": 1})"},
      {"training", R"("recompute": "selective", "recompute_modules": ["mla_up_proj"])",
       R"("recompute": "selective", "recompute_modules": ["mlp"])"},
      {"training", R"("recompute": "selective", "recompute_modules": ["moe_activation", "moe", "shared_experts"])",
       R"("recompute": "selective", "recompute_modules": ["moe", "mlp"])"},
      {"model", R"("moe": {"num_experts": 4, "normalize_weights": false})",
       R"("moe": {"num_experts": 4, "experts_per_token": 2, "normalize_weights": false})"},
      {"model", R"("moe": {"num_experts": 4, "expert_groups": 2})", R"("moe": {"num_experts": 4, "expert_groups": 2, "groups_per_token": 1})"},
      {"model", R"("moe": {"num_experts": 4, "group_score": "top2"})",
       R"("moe": {"num_experts": 4, "expert_groups": 2, "groups_per_token": 1, "group_score": "top2"})"},
      {"model", R"("moe": {"experts_per_token": 2})", R"("moe": {"num_experts": 4, "experts_per_token": 2})"},
      {"parallel", R"("offload": {"ratio": 0.5})", R"("offload": {"optimizer": true, "ratio": 0.5})"},
      {"parallel", R"("zero_stage": 3, "reduce_scatter": false)", R"("zero_stage": 2, "reduce_scatter": false)"},
      {"parallel", R"("zero_stage": 1, "prefetch_layers": 3)", R"("zero_stage": 3, "prefetch_layers": 3)"},
      {"parallel", R"("zero_stage": 1, "reuse_distance": 3)", R"("zero_stage": 3, "reuse_distance": 3)"},
      {"parallel", R"("zero_stage": 2, "unit_copies": "flat")", R"("zero_stage": 3, "unit_copies": "flat")"},
      {"parallel", R"("zero_stage": 2, "root_unit": true)", R"("zero_stage": 3, "root_unit": true)"},
      {"training", R"("recompute": "none", "recompute_layers": 1)", R"("recompute": "full", "recompute_layers": 1)"},
      {"training", R"("recompute": "selective", "recompute_early_stop": false)", R"("recompute": "full", "recompute_early_stop": false)"},
      {"training", R"("recompute": "selective", "recompute_modules": ["mlp"], "recompute_every_second_matmul": true)",
       R"("recompute": "selective", "recompute_modules": ["operations"], "recompute_every_second_matmul": true)"},
      {"training", R"("recompute": "full", "recompute_early_stop": false, "dropout": {"hidden": 0.1}, "fusion": "megatron")",
       R"("recompute": "full", "recompute_early_stop": false, "dropout": {"hidden": 0.1})"},
      {"training", R"("flash_attention": false, "attention_kernel": "triton")", R"("flash_attention": true, "attention_kernel": "triton")"},
      {"training", R"("fill_uninitialized_memory": true)", R"("deterministic": true, "fill_uninitialized_memory": true)"},
      {"training", R"("deterministic": true, "fill_uninitialized_memory": true, "fusion": "compiled")",
       R"("deterministic": true, "fill_uninitialized_memory": true, "fusion": "eager")"},
      {"training", R"("precision": "bf16", "loss_scale": {"window": 10})", R"("precision": "fp16", "loss_scale": {"window": 10})"},
      {"training", R"("stochastic_rounding": false)", R"("dtypes": {"master": "bf16"}, "stochastic_rounding": false)"},
      {"training", R"("optimizer": "adamw", "momentum": 0.9)", R"("optimizer": "sgd", "momentum": 0.9)"},
      {"training", R"("optimizer": "sgd", "beta1": 0.5)", R"("optimizer": "lamb", "beta1": 0.5)"},
      {"training", R"("optimizer": "sgd", "beta2": 0.5)", R"("optimizer": "muon", "beta2": 0.5)"},
      {"training", R"("optimizer": "sgd", "epsilon": 0.1)", R"("optimizer": "adamw", "epsilon": 0.1)"},
      {"training", R"("warmup": 2, "min_learning_rate": 1e-5)", R"("learning_rate_decay": "cosine", "min_learning_rate": 1e-5)"},
      {"training", R"("decay_over": 8)", R"("learning_rate_decay": "linear", "decay_over": 8)"},
      {"training", R"("learning_rate_unit": "samples")", R"("learning_rate_unit": "samples", "warmup": 2)"},
      {"training", R"("decay_start": 4)", R"("learning_rate_decay": "linear", "decay_start": 4)"},
      {"training", R"("optimizer": "sgd", "muon": {"scale": 0.3})", R"("optimizer": "muon", "muon": {"scale": 0.3})"},
  }));
  CAPTURE(c.idle);
  const auto idle = told(c.part, c.idle);
  REQUIRE(idle.size() == 1);
  CHECK(idle.front().find(" changes nothing: ") != std::string::npos);
  CHECK(told(c.part, c.effective).empty());
}

TEST_CASE("recomputed shared experts change nothing in a model without them") {
  const auto told = [](int shared) {
    const std::string model = R"("linear_bias": false, "moe": {"num_experts": 4, "num_shared_experts": )" + std::to_string(shared) + "}";
    const std::string again = test::with("training", R"("recompute": "selective", "recompute_modules": ["shared_experts"])");
    return parse_plan(test::with("model", model, again), "plan.json").ineffective;
  };
  CHECK(told(1).empty());
  CHECK(told(0) == std::vector<std::string>{"training.recompute_modules changes nothing: no layer has shared experts (model.moe.num_shared_experts)"});
}

TEST_CASE("recomputation does not stop early before a norm") {
  const std::string early = test::with("training", R"("recompute": "full", "recompute_early_stop": false)");
  const auto of = [&](const std::string& placement) {
    return parse_plan(test::with("model", R"("norm_placement": ")" + placement + "\"", early), "plan.json").ineffective;
  };
  CHECK(of("pre").empty());
  REQUIRE(of("post").size() == 1);
  CHECK(of("post").front().find("a norm follows") != std::string::npos);
}

TEST_CASE("where a stack's pipelines have weights whole between micro-batches nothing of how ZeRO 3 gathers them has an effect") {
  const char* field = GENERATE(R"("prefetch_layers": 3)", R"("reuse_distance": 3)", R"("unit_copies": "none")", R"("root_unit": false)");
  const std::string fsdp = test::with_top(R"("stack": "pytorch-fsdp")", test::with("parallel", std::string(R"("zero_stage": 3, )") + field));
  const std::string piped = test::bent(R"("tensor": 2, "pipeline": 2, "data": 2)", R"("pipeline": 2, "data": 4)", fsdp);
  const std::string alone = test::bent(R"("tensor": 2, "pipeline": 2, "data": 2)", R"("data": 8)", fsdp);
  CAPTURE(field);
  const auto idle = parse_plan(piped, "plan.json").ineffective;
  REQUIRE(idle.size() == 1);
  CHECK(idle.front().find("whole between micro-batches") != std::string::npos);
  CHECK(parse_plan(alone, "plan.json").ineffective.empty());
}

TEST_CASE("without tensor ranks there is no sum to overlap") {
  const std::string overlap = test::with("parallel", R"("overlap_tensor_sum": true)");
  CHECK(parse_plan(overlap, "plan.json").ineffective.empty());
  const std::string alone = test::bent(R"("tensor": 2, "pipeline": 2, "data": 2)", R"("data": 8)", overlap);
  CHECK(parse_plan(alone, "plan.json").ineffective ==
        std::vector<std::string>{"parallel.overlap_tensor_sum changes nothing: parallel.tensor is 1"});
}

TEST_CASE("a plan printed with every default tells no more than the plan did") {
  const Plan plan = parse_plan(test::with("model", R"("rope_theta": 5e5)"), "plan.json");
  REQUIRE(plan.ineffective.size() == 1);
  CHECK(parse_plan(to_json(plan), "again.json").ineffective == plan.ineffective);
  CHECK(parse_plan(to_json(parse_plan(test::kGoodPlan, "plain.json")), "again.json").ineffective.empty());
}

TEST_CASE("a dispatcher changes nothing where no token travels") {
  const Plan plan = parse_plan(test::with("parallel", R"("token_dispatcher": "deepep")"), "plan.json");
  CHECK(plan.ineffective == std::vector<std::string>{"parallel.token_dispatcher changes nothing: model.moe.num_experts is 0"});
}

TEST_CASE("threads of a rank change nothing where devices are no processors") {
  const std::string threads = test::with("cluster", R"("threads_per_rank": 2)");
  CHECK(parse_plan(threads, "plan.json").ineffective == std::vector<std::string>{"cluster.threads_per_rank changes nothing: the device of cluster.preset is no processor"});
  CHECK(parse_plan(test::bent("dgx-a100-80gb", "cpu-host", threads), "plan.json").ineffective.empty());
}
