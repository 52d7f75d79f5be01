#include "models/arguments/exported_options.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/models/arguments/cases.hpp"
#include "tests/source_dir.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::tests;
using nlohmann::json;

namespace {

const arguments::Table& table() {
  static const arguments::Table read = arguments::read_table("megatron-core");
  return read;
}

Plan plan_of(const json& changes) {
  json document = {{"stack", "megatron-core"},
                   {"model", {{"num_layers", 8}, {"hidden_size", 1024}, {"num_attention_heads", 16}, {"vocab_size", 50257}}},
                   {"training", {{"seq_length", 2048}, {"micro_batch_size", 1}, {"global_batch_size", 64}}},
                   {"cluster", {{"preset", "dgx-h100"}, {"devices", 32}}}};
  document.merge_patch(changes);
  return parse_plan(document.dump(), "plan.json");
}

std::vector<std::string> unsaid(const Plan& plan) {
  return arguments::unsaid_fields(plan, arguments::export_plan(plan, table(), 8), table(), PlanContext{generation_of});
}

}  // namespace

TEST_CASE("a plan is exported as the command that starts it") {
  const Plan plan = plan_of({{"parallel", {{"tensor", 2}, {"pipeline", 4}, {"zero_stage", 1}, {"sequence_parallel", true}}},
                             {"training", {{"recompute", "full"}, {"clip_grad", 0.5}}}});
  const std::string command = arguments::export_plan(plan, table(), 8).text;
  CHECK(command.starts_with("CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nnodes 4 --nproc-per-node 8 pretrain_gpt.py \\\n  --num-layers 8 \\\n"));
  for (const char* line : {"--tensor-model-parallel-size 2", "--pipeline-model-parallel-size 4", "--sequence-parallel", "--use-distributed-optimizer",
                           "--recompute-granularity full", "--recompute-method uniform", "--recompute-num-layers 1", "--bf16", "--clip-grad 0.5",
                           "--make-vocab-size-divisible-by 128", "--global-batch-size 64"})
    CHECK(command.find(std::string("  ") + line + " \\\n") != std::string::npos);
  CHECK(command.find("--swiglu") == std::string::npos);
}

// NVIDIA/Megatron-LM d98e8a64dd: megatron/training/arguments.py, validate_args
TEST_CASE("a command has the variable and the format of checkpoints that Megatron-LM asserts") {
  const auto command = [](const json& parallel, const char* cluster = "dgx-h100") {
    return arguments::export_plan(plan_of({{"parallel", parallel}, {"cluster", {{"preset", cluster}}}}), table(), 8).text;
  };
  const json tensor = {{"tensor", 2}}, sharded = {{"tensor", 2}, {"zero_stage", 3}};
  for (const json& parallel : {tensor, json{{"context", 2}}}) {
    CHECK(command(parallel).starts_with("CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun "));
    CHECK(command(parallel, "dgx-b200").starts_with("torchrun "));
  }
  CHECK(command(json::object()).starts_with("torchrun "));
  CHECK(command(sharded).starts_with("torchrun "));
  CHECK(command(sharded).find("  --ckpt-format fsdp_dtensor \\\n") != std::string::npos);
  CHECK(command(tensor).find("--ckpt-format") == std::string::npos);
}

TEST_CASE("a balanced split is exported as a layout, and nothing of it is left unsaid") {
  // 16 layers of 12.6 million weights each and a head of 201 million, which stands alone
  const Plan plan = plan_of({{"model", {{"num_layers", 16}, {"vocab_size", 196608}}}, {"parallel", {{"pipeline", 4}, {"pipeline_split", "balanced"}}}});
  CHECK(plan.parallel.pipeline_split == std::vector<std::int64_t>{5, 5, 6, 0});
  CHECK(arguments::export_plan(plan, table(), 8).text.find("Et*5|t*5|t*6|L") != std::string::npos);
  CHECK(unsaid(plan).empty());
}

TEST_CASE("offloaded activations are exported as Megatron-LM's, where it has an option for them") {
  const auto plan = [](const json& offload) { return plan_of({{"parallel", {{"offload", offload}}}}); };
  const auto text = [](const Plan& p) { return arguments::export_plan(p, table(), 8).text; };
  const Plan modules = plan({{"activations", {"core_attention", "projection"}}}), layers = plan({{"activations", {"all"}}, {"layers", 3}});
  CHECK(text(modules).find("  --fine-grained-activation-offloading \\\n") != std::string::npos);
  CHECK(text(modules).find("  --offload-modules core_attn attn_proj \\\n") != std::string::npos);
  CHECK(unsaid(modules).empty());
  CHECK(text(layers).find("  --cpu-offloading-num-layers 3 \\\n") != std::string::npos);
  CHECK(unsaid(layers).empty());
  CHECK_FALSE(unsaid(plan({{"activations", {"all"}}})).empty());
}

TEST_CASE("Muon with ZeRO 1 is Megatron-LM's dist_muon, which has no distributed optimizer beside it") {
  const auto command = [](int zero) {
    const Plan plan = plan_of({{"parallel", {{"zero_stage", zero}}}, {"training", {{"optimizer", "muon"}}}});
    return arguments::export_plan(plan, table(), 8).text;
  };
  CHECK(command(1).find("--optimizer dist_muon \\\n") != std::string::npos);
  CHECK(command(0).find("--optimizer muon \\\n") != std::string::npos);
  for (const int zero : {0, 1}) CHECK(command(zero).find("--use-distributed-optimizer") == std::string::npos);
}

TEST_CASE("what options say comes back") {
  const std::vector<json> all = {
      {{"parallel", {{"zero_stage", 1}}}, {"training", {{"optimizer", "muon"}, {"muon", {{"scale_mode", "shape"}, {"scale", 1}}}}}},
      {{"parallel", {{"pipeline", 2}}}, {"training", {{"optimizer", "muon"}}}},
      {{"model", {{"activation", "swiglu"}, {"normalization", "rmsnorm"}, {"position_embedding", "rope"}, {"rope_theta", 5e5}, {"linear_bias", false},
                  {"num_kv_heads", 4}, {"tie_embeddings", false}, {"qk_norm", "head"}}}},
      {{"model", {{"window", {{"size", 128}, {"layers", "wf"}}}, {"attention_sinks", true}}}},
      {{"model", {{"window", {{"layers", "wf"}, {"full_rotary", false}}}, {"position_embedding", "rope"}}}},
      {{"model", {{"latent", {{"kv_rank", 512}, {"query_rank", 768}, {"rotary_dim", 64}}}, {"head_dim", 192}, {"position_embedding", "rope"}}}},
      {{"model", {{"moe", {{"num_experts", 16}, {"experts_per_token", 4}, {"ffn_hidden_size", 512}, {"num_shared_experts", 2}, {"first_dense_layers", 1},
                           {"router_scores", "sigmoid"}, {"weight_scale", 2.5}, {"expert_groups", 4}, {"groups_per_token", 2}, {"group_score", "top2"},
                           {"balance_rate", 1e-3}}}, {"mtp", {{"num_layers", 1}}}}},
       {"parallel", {{"expert", 8}, {"token_dispatcher", "deepep"}}}},
      {{"model", {{"moe", {{"num_experts", 8}, {"first_dense_layers", 1}, {"layer_frequency", 2}}}}}},
      {{"parallel", {{"pipeline", 4}, {"pipeline_split", {1, 3, 3, 1}}}}},
      {{"parallel", {{"pipeline", 2}, {"virtual_pipeline", 2}, {"schedule", "interleaved"}, {"overlap_p2p", false}}}},
      {{"parallel", {{"tensor", 2}, {"sequence_parallel", true}, {"tensor_overlap", true}, {"rank_order", "tp-cp-ep-pp-dp"}}}},
      {{"parallel", {{"context", 2}, {"context_mode", "ulysses"}, {"zero_stage", 1}, {"zero_group", 8}}}},
      {{"parallel", {{"context", 4}, {"ulysses", 2}}}},
      {{"parallel", {{"context", 4}, {"ulysses", 4}}}},
      {{"parallel", {{"zero_stage", 3}, {"overlap_grad_reduce", true}, {"overlap_param_gather", true}}}},
      {{"parallel", {{"zero_stage", 1}, {"offload", {{"optimizer", true}, {"ratio", 0.5}}}}}},
      {{"training", {{"precision", "fp8_block"}, {"dropout", {{"hidden", 0}, {"attention", 0}}}}}},
      {{"training", {{"precision", "fp16"}, {"loss_scale", {{"initial", 65536}}}, {"dtypes", {{"gradients", "fp32"}, {"gradient_reduce", "fp32"}}}}}},
      {{"training", {{"recompute", "selective"}, {"recompute_modules", {"core_attention", "mlp"}}, {"attention_kernel", "flash2"}, {"flash_attention", true}}}},
      {{"training", {{"learning_rate_decay", "cosine"}, {"decay_over", 500}, {"warmup", 10}, {"steps", 400}, {"min_learning_rate", 1e-5}}}},
      {{"training", {{"learning_rate_unit", "samples"}, {"learning_rate_decay", "linear"}, {"decay_over", 5000}, {"steps", 100}}}},
      {{"training", {{"learning_rate_decay", "linear"}, {"decay_start", 300}, {"steps", 400}}}},
      {{"training", {{"batch_rampup", {{"start", 32}, {"increment", 32}, {"samples", 640}}}, {"optimizer", "sgd"}, {"momentum", 0.9}}}},
  };
  for (const json& changes : all) {
    CAPTURE(changes.dump());
    CHECK(unsaid(plan_of(changes)) == std::vector<std::string>{});
  }
}

TEST_CASE("a field that no option says is named with both values") {
  CHECK(unsaid(plan_of({{"model", {{"logit_soft_cap", 30}}}})) == std::vector<std::string>{"model.logit_soft_cap: 30.0, read back as 0.0"});
  const std::vector<std::string> levels =
      unsaid(plan_of({{"stack", "tandem"}, {"parallel", {{"context", 4}, {"context_mode", "all_gather"}, {"ulysses", 2}}}}));
  CHECK(std::find(levels.begin(), levels.end(), "parallel.ulysses: 2, read back as null") != levels.end());
  const std::vector<std::string> bubbles = unsaid(plan_of({{"parallel", {{"pipeline", 4}, {"schedule", "zb-h1"}}}}));
  CHECK(std::find(bubbles.begin(), bubbles.end(), "parallel.schedule: \"zb-h1\", read back as \"1f1b\"") != bubbles.end());
}

// NVIDIA/Megatron-LM e7c55de99e (2025-08-01), 5769804591 (2025-10-14) and e41b37002c (2026-05-18): megatron/training/arguments.py
TEST_CASE("graphs of an iteration have the options of their month") {
  const auto command = [](const char* month) {
    const Plan plan = plan_of({{"stack", {{"name", "megatron-core"}, {"as_of", month}}}, {"training", {{"cuda_graphs", "iteration"}}}});
    CHECK(unsaid(plan) == std::vector<std::string>{});
    return arguments::export_plan(plan, table(), 8).text;
  };
  CHECK(command("2026-05").find("--cuda-graph-impl full_iteration \\\n") != std::string::npos);
  CHECK(command("2026-04").find("--cuda-graph-impl local \\\n  --cuda-graph-scope full_iteration \\\n") != std::string::npos);
  CHECK(command("2025-09").find("--enable-cuda-graph \\\n  --cuda-graph-scope full_iteration \\\n") != std::string::npos);
  CHECK_THROWS_AS(command("2025-07"), InfeasibleError);
}

TEST_CASE("a pattern of layers that repeats a shorter one is that one") {
  const json hybrid = {{"num_layers", 8}, {"position_embedding", "none"}, {"normalization", "rmsnorm"}, {"linear_bias", false}, {"tie_embeddings", false}};
  for (const char* pattern : {"mf", "mfmf", "mfmfmfmfmfmf"}) {
    CAPTURE(pattern);
    json changes = {{"model", hybrid}};
    changes["model"]["sublayers"] = pattern;
    CHECK(unsaid(plan_of(changes)) == std::vector<std::string>{});
  }
}

TEST_CASE("example plans of Megatron-LM are exported whole") {
  for (const char* name : {"gpt3-175b-1024", "llama2-13b-a100-32", "llama2-70b-a100-1024", "llama3-405b-16384", "megatron-1t-3072"}) {
    CAPTURE(name);
    CHECK(unsaid(load_plan(tests::source_dir() + "/experiments/plans/" + name + ".json")) == std::vector<std::string>{});
  }
}

TEST_CASE("a plan's ZeRO, types, optimizer and batches become a configuration of DeepSpeed") {
  const arguments::Table deepspeed = arguments::read_table("deepspeed");
  const auto exported = [&](const json& changes) {
    json all = {{"stack", "megatron-deepspeed"}, {"training", {{"flash_attention", true}}}};
    all.merge_patch(changes);
    const Plan plan = plan_of(all);
    const arguments::ExportedOptions made = arguments::export_plan(plan, deepspeed, 8);
    return std::pair(json::parse(made.text), arguments::unsaid_fields(plan, made, deepspeed, PlanContext{generation_of}));
  };
  const auto [file, unsaid] = exported({{"parallel", {{"zero_stage", 3}, {"offload", {{"optimizer", true}, {"ratio", 0.5}}}}},
                                        {"training", {{"warmup", 10}, {"learning_rate_decay", "linear"}, {"decay_over", 100}, {"steps", 100}}}});
  CHECK(unsaid == std::vector<std::string>{});
  CHECK(file["train_batch_size"] == 64);
  CHECK(file["gradient_accumulation_steps"] == 2);
  CHECK(file["bf16"] == json{{"enabled", true}});
  CHECK(file["zero_optimization"]["stage"] == 3);
  CHECK(file["zero_optimization"]["offload_optimizer"] == json({{"device", "cpu"}, {"ratio", 0.5}}));
  CHECK(file["scheduler"]["type"] == "WarmupDecayLR");
  CHECK(exported({{"training", {{"precision", "fp16"}, {"loss_scale", {{"initial", 4096}}}}}, {"parallel", {{"zero_stage", 1}}}}).first["fp16"]["initial_scale_power"] == 12);
  CHECK(exported({{"parallel", {{"tensor", 2}, {"zero_stage", 2}}}}).first["tensor_parallel"]["autotp_size"] == 2);
  // DeepSpeedEngine asserts a stage below 3 with autotp_size.
  const auto [both, left] = exported({{"parallel", {{"tensor", 2}, {"zero_stage", 3}, {"sequence_parallel", true}}}});
  CHECK(both["zero_optimization"]["stage"] == 2);
  CHECK(both["tensor_parallel"]["autotp_size"] == 2);
  CHECK(std::count(left.begin(), left.end(), "parallel.zero_stage: 3, read back as 2") == 1);
  CHECK(exported({{"training", {{"optimizer", "sgd"}, {"momentum", 0.9}}}, {"parallel", {{"zero_stage", 1}}}}).second == std::vector<std::string>{});
  CHECK(exported({{"training", {{"min_learning_rate", 1e-5}}}, {"parallel", {{"zero_stage", 1}}}}).second == std::vector<std::string>{"training.min_learning_rate: 1e-05, read back as 0.0"});
  // HabanaAI/Model-References: PyTorch/nlp/pretraining/deepspeed-bert (1.8.0), run_pretraining.py makes LANS itself; DeepSpeed has none.
  const auto [lans, rest] = exported({{"training", {{"optimizer", "lans"}, {"warmup", 10}}}, {"parallel", {{"zero_stage", 1}}}});
  CHECK_FALSE(lans.contains("optimizer"));
  CHECK_FALSE(lans.contains("scheduler"));
  CHECK(rest == std::vector<std::string>{});
  // Until DeepSpeed 0.17.5, bf16 without ZeRO shares its fp32 states (deepspeedai/DeepSpeed 889f0ead2, 2025-08-27).
  CHECK(exported(json::object()).second == std::vector<std::string>{"parallel.zero_stage: 0, read back as 1"});
  CHECK(exported({{"stack", {{"name", "megatron-deepspeed"}, {"as_of", "2025-09"}}}}).second == std::vector<std::string>{});
}

namespace {

/// An option's value as a number; 0 where it is left out.
std::int64_t value_of(const arguments::ExportedOptions& made, const std::string& option) {
  for (const auto& [name, value] : made.options)
    if (name == option) return std::stoll(value);
  return 0;
}

/// An interleaved pipeline of `stages` with so many micro-batches.
Plan interleaved(std::int64_t stages, std::int64_t micro_batches) {
  return plan_of({{"parallel", {{"pipeline", stages}, {"virtual_pipeline", 2}, {"schedule", "interleaved"}}},
                  {"training", {{"global_batch_size", micro_batches * 32 / stages}}}});
}

}  // namespace

// NVIDIA/Megatron-LM d98e8a64: forward_backward_pipelining_with_interleaving of megatron/core/pipeline_parallel/schedules.py raises
// unless stages <= N <= M and M % N is 0 or at least the stages; N is the stages where no option says it (model_parallel_config.py).
TEST_CASE("an interleaved schedule is exported with groups of micro-batches that Megatron-LM takes") {
  const std::string option = "--microbatch-group-size-per-virtual-pipeline-stage";
  for (const std::int64_t stages : {2, 4})
    for (std::int64_t m = stages; m <= 6 * stages + 1; ++m) {
      CAPTURE(stages, m);
      const Plan plan = interleaved(stages, m);
      const arguments::ExportedOptions made = arguments::export_plan(plan, table(), 8);
      const std::int64_t said = value_of(made, option), group = said > 0 ? said : stages;
      CHECK((group >= stages && group <= m));
      CHECK((m % group == 0 || m % group >= stages));
      CHECK((said == 0) == (m % stages == 0));
      CHECK(unsaid(plan) == std::vector<std::string>{});
      CHECK(imported(made.text).features.empty());
    }
  CHECK(value_of(arguments::export_plan(interleaved(2, 3), table(), 8), option) == 3);  // 2 would leave 1
  CHECK(value_of(arguments::export_plan(plan_of({{"parallel", {{"pipeline", 4}}}, {"training", {{"global_batch_size", 40}}}}), table(), 8), option) == 0);
}

TEST_CASE("groups of micro-batches that a plan cannot express are told") {
  const std::string chunks = "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --microbatch-group-size-per-virtual-pipeline-stage ";
  CHECK(imported(some_options(chunks + "2")).features.empty());  // 16 micro-batches
  const auto told = imported(some_options(chunks + "8")).features;
  REQUIRE(told.size() == 1);
  CHECK(told.front().name == "groups of micro-batches of this size");
  CHECK(!told.front().refused);
}

// NVIDIA-NeMo/Megatron-Bridge 067f987df: src/megatron/bridge/training/flex_dispatcher_backend.py
TEST_CASE("experts whose NVLink joins hosts exchange rows by HybridEP, which DeepEP cannot") {
  const auto backend = [](std::int64_t linked, const char* as_of, const char* framework, const char* preset = "gb200-nvl72") {
    const Plan plan = plan_of({{"stack", {{"name", "megatron-core"}, {"as_of", as_of}}},
                               {"model", {{"moe", {{"num_experts", 8}, {"experts_per_token", 2}}}}}, {"parallel", {{"expert", 8}, {"token_dispatcher", "deepep"}}},
                               {"cluster", {{"preset", preset}}}});
    const arguments::Table to = arguments::read_table(framework);
    const arguments::ExportedOptions made = arguments::export_plan(plan, to, 4, linked);
    for (const std::string& field : arguments::unsaid_fields(plan, made, to, PlanContext{generation_of}))
      CHECK(!field.starts_with("parallel.token_dispatcher"));
    const bool hybrid = made.text.find("hybridep") != std::string::npos;
    const bool deep = made.text.find("enable-deepep") != std::string::npos || made.text.find("enable_deepep: true") != std::string::npos;
    CHECK(hybrid != deep);
    return hybrid;
  };
  for (const char* framework : {"megatron-core", "megatron-bridge"}) {
    CHECK(backend(32, "2026-08", framework));
    CHECK(!backend(32, "2025-10", framework, "dgx-h100"));  // HybridEP came in November 2025
    CHECK_THROWS_AS(backend(32, "2025-10", framework), InfeasibleError);  // and DeepEP ran on no Blackwell
    CHECK(!backend(4, "2026-08", framework));
  }
}

// NVIDIA/Megatron-LM d98e8a64: megatron/core/transformer/transformer_config.py: delayed scaling does not support these
TEST_CASE("8 bits beside recomputed norms or activations of experts are scaled by tensors as they are") {
  const auto recipe = [](const json& modules, const char* framework) {
    const Plan plan = plan_of({{"training", {{"precision", "fp8"}, {"recompute", "selective"}, {"recompute_modules", modules}}}});
    const std::string text = arguments::export_plan(plan, arguments::read_table(framework), 8).text;
    return text.find("tensorwise") != std::string::npos;
  };
  for (const char* framework : {"megatron-core", "megatron-bridge"}) {
    CHECK(recipe({"norm"}, framework));
    CHECK(!recipe({"core_attention"}, framework));
  }
  const Plan plan = plan_of({{"training", {{"precision", "fp8"}, {"recompute", "selective"}, {"recompute_modules", {"norm"}}}}});
  CHECK(unsaid(plan) == std::vector<std::string>{});
}

// NVIDIA/Megatron-LM d98e8a64: megatron/core/transformer/transformer_config.py: without modules a graph holds the whole layer
TEST_CASE("graphs of layers with experts leave the experts out") {
  const json experts = {{"num_experts", 8}, {"experts_per_token", 2}};
  const auto modules = [](const json& moe, const char* framework, const json& parallel = json::object()) {
    const Plan plan = plan_of({{"model", {{"moe", moe}}}, {"parallel", parallel}, {"training", {{"cuda_graphs", "layers"}}}});
    const arguments::Table to = arguments::read_table(framework);
    const arguments::ExportedOptions made = arguments::export_plan(plan, to, 8);
    for (const std::string& field : arguments::unsaid_fields(plan, made, to, PlanContext{generation_of}))
      CHECK(!field.starts_with("training.cuda_graphs"));
    for (const auto& [name, value] : made.options)
      if (name == "--cuda-graph-modules" || name == "model.cuda_graph_modules") return value;
    return std::string();
  };
  CHECK(modules({{"num_experts", 0}}, "megatron-core").empty());
  CHECK(modules(experts, "megatron-core") == "attn moe_router moe_preprocess");
  CHECK(modules(experts, "megatron-bridge") == R"(["attn","moe_router","moe_preprocess"])");
  json sparse = experts, capped = experts;
  sparse["first_dense_layers"] = 1, capped["capacity_factor"] = 1.0;
  CHECK(modules(sparse, "megatron-core") == "attn mlp moe_router moe_preprocess");
  CHECK(modules(capped, "megatron-core") == "attn");
  CHECK(modules(capped, "megatron-bridge") == R"(["attn","moe_router"])");
  CHECK(modules(capped, "megatron-core", {{"expert", 8}, {"token_dispatcher", "deepep"}}) == "attn moe_router moe_preprocess");
}

// NVIDIA/Megatron-LM d98e8a64dd: what its validate_args and TransformerConfig refuse, found by experiments/frameworks/megatron_check.py
TEST_CASE("a command has the options that Megatron-LM asks for beside others") {
  const auto has = [](const json& changes, const std::string& line) {
    return arguments::export_plan(plan_of(changes), table(), 8).text.find("\n  " + line) != std::string::npos;
  };
  const json offloads = {{"parallel", {{"zero_stage", 1}, {"offload", {{"optimizer", true}}}}}};
  CHECK(has(offloads, "--use-precision-aware-optimizer"));
  const json one_graph = {{"training", {{"cuda_graphs", "iteration"}}}};
  CHECK(has(one_graph, "--no-check-for-nan-in-loss-and-grad"));
  const json one_expert = {{"model", {{"linear_bias", false}, {"moe", {{"num_experts", 8}}}}}};
  CHECK(has(one_expert, "--moe-router-pre-softmax"));
  const json sparse = {{"model", {{"position_embedding", "rope"}, {"linear_bias", false}, {"head_dim", 192}, {"indexer", {{"heads", 8}}},
                                  {"latent", {{"kv_rank", 512}, {"query_rank", 768}, {"rotary_dim", 64}}}}}};
  CHECK(has(sparse, "--no-rope-fusion"));
  for (const json& changes : {offloads, one_graph, one_expert, sparse}) {
    CAPTURE(changes.dump());
    CHECK(unsaid(plan_of(changes)) == std::vector<std::string>{});
    CHECK_FALSE(has({{"parallel", {{"zero_stage", 1}}}}, "--no-rope-fusion"));
  }
}

// NVIDIA/Megatron-LM 168cb15d70 (2026-06-03)
TEST_CASE("Transformer Engine's loss is said until Megatron-LM refuses it") {
  const auto plan = [](const char* month) {
    return plan_of({{"stack", {{"name", "megatron-core"}, {"as_of", month}}}, {"training", {{"fusion", "megatron-bridge"}}}});
  };
  CHECK(unsaid(plan("2026-05")).empty());
  CHECK(unsaid(plan("2026-06")).size() == 1);
}

TEST_CASE("shared experts of several widths, a decay to the run's end and the rounding of a quotient are no difference") {
  CHECK(unsaid(plan_of({{"model", {{"linear_bias", false}, {"ffn_hidden_size", 512},
                                   {"moe", {{"num_experts", 8}, {"experts_per_token", 2}, {"ffn_hidden_size", 512}, {"num_shared_experts", 4}}}}}})).empty());
  const json rates = {{"learning_rate", 3e-4}, {"min_learning_rate", 3e-5}, {"learning_rate_decay", "linear"}, {"warmup", 10}, {"steps", 1000}};
  for (const char* framework : {"torchtitan", "deepspeed"}) {
    CAPTURE(framework);
    const arguments::Table of = arguments::read_table(framework);
    json training = rates;
    if (of.stack != "torchtitan") training["min_learning_rate"] = 0;
    const Plan plan = plan_of({{"stack", of.stack}, {"training", training}, {"parallel", {{"zero_stage", of.stack == "torchtitan" ? 3 : 1}}}});
    const arguments::ExportedOptions made = arguments::export_plan(plan, of, 8);
    CHECK(arguments::unsaid_fields(plan, made, of, PlanContext{generation_of}) == std::vector<std::string>{});
  }
}
