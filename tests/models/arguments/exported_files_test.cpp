#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/arguments/exported_options.hpp"
#include "models/arguments/imported_plan.hpp"
#include "models/arguments/yaml_text.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

struct Framework {
  std::string stack, table, cluster;
};

const Framework kNxd{"neuronx", "neuronx", "trn1.32xlarge"}, kBridge{"nemo", "megatron-bridge", "dgx-h100"};

const json kLlama = {{"activation", "swiglu"}, {"normalization", "rmsnorm"}, {"position_embedding", "rope"}, {"rope_theta", 5e5},
                     {"linear_bias", false}, {"num_kv_heads", 4}, {"tie_embeddings", false}, {"ffn_hidden_size", 2816}};

Plan plan_of(const Framework& framework, const json& changes) {
  json document = {{"stack", {{"name", framework.stack}}},
                   {"model", {{"num_layers", 8}, {"hidden_size", 1024}, {"num_attention_heads", 16}, {"vocab_size", 50304}}},
                   {"parallel", {{"tensor", 2}, {"zero_stage", 1}}},
                   {"training", {{"seq_length", 2048}, {"micro_batch_size", 1}, {"global_batch_size", 64}}},
                   {"cluster", {{"preset", framework.cluster}, {"devices", 64}}}};
  document.merge_patch(changes);
  return parse_plan(document.dump(), "plan.json", PlanContext{generation_of});
}

arguments::ExportedOptions exported(const Framework& framework, const Plan& plan) {
  return arguments::export_plan(plan, arguments::read_table(framework.table), framework.table == "neuronx" ? 32 : 8);
}

json file_of(const Framework& framework, const json& changes) {
  return arguments::parse_yaml(exported(framework, plan_of(framework, changes)).text, "plan.yaml");
}

std::vector<std::string> unsaid(const Framework& framework, const json& changes) {
  const Plan plan = plan_of(framework, changes);
  const arguments::Table table = arguments::read_table(framework.table);
  return arguments::unsaid_fields(plan, exported(framework, plan), table, PlanContext{generation_of});
}

json with(json a, const json& b) {
  a.merge_patch(b);
  return a;
}

}  // namespace

TEST_CASE("a plan becomes a file of NxD Training's Megatron") {
  const json rates = {{"learning_rate_decay", "cosine"}, {"warmup", 10}, {"steps", 600}, {"decay_over", 500}};
  const json file = file_of(kNxd, {{"training", with(rates, {{"recompute", "selective"}})}});
  CHECK(file["model_source"] == "megatron");
  // Hydra refuses to set a key that a file lacks: examples/training_orchestrator.py sets both with COMPILE=1.
  for (const char* key : {"create_tensorboard_logger", "create_checkpoint_callback"}) CHECK(file["exp_manager"][key] == false);
  CHECK(file["trainer"]["devices"] == 32);
  CHECK(file["trainer"]["num_nodes"] == 2);
  CHECK(file["distributed_strategy"]["tensor_model_parallel_size"] == 2);
  CHECK(file["model"]["num_layers"] == 8);
  CHECK(file["model"]["activations_checkpoint_recompute"] == json{"CoreAttention"});
  CHECK(file["model"]["optim"]["sched"]["name"] == "CosineAnnealing");
  CHECK(file["model"]["optim"]["sched"]["constant_steps"] == 100);
  CHECK(file["precision"]["type"] == "mixed_precision");
}

// aws-neuron/neuronx-distributed-training 9169aa0: examples/training_orchestrator.py and training.py read these fields without a default;
// megatron_base_model.py raises without zero1.
TEST_CASE("a file of NxD Training has what its program reads without a default") {
  const json file = file_of(kNxd, {{"parallel", {{"zero_stage", 0}}}});
  for (const char* name : {"neuron_experimental_compress_rg", "aync_exec_max_inflight_requests", "bucket_size_collectives", "compiler_cache_url",
                           "compiler_flags", "neuron_rt_exec_timeout"})
    CHECK(file.contains(name));
  CHECK(file["exp_manager"].contains("resume_from_checkpoint"));
  CHECK(file["exp_manager"]["checkpoint_callback_params"].is_object());
  CHECK(file["model"]["fusions"]["softmax"] == true);
  CHECK(file["distributed_strategy"]["zero1"] == true);
  CHECK(unsaid(kNxd, {{"parallel", {{"zero_stage", 0}}}}) == std::vector<std::string>{"parallel.zero_stage: 0, read back as 1"});
}

TEST_CASE("what NxD Training's Megatron lacks is said with a model of Hugging Face") {
  const json flash = {{"model", kLlama}, {"training", {{"flash_attention", true}}}};
  CHECK(file_of(kNxd, {{"model", kLlama}})["model_source"] == "megatron");
  CHECK(file_of(kNxd, flash)["model_source"] == "hf");
  CHECK(file_of(kNxd, flash)["model"]["fusions"]["flash_attention"] == true);
  const json shared = file_of(kNxd, with(flash, {{"parallel", {{"tensor", 8}}}}));
  CHECK(shared["distributed_strategy"]["kv_replicator"] == 2);
  CHECK(shared["model"]["qkv_linear"] == true);
  const json ring = file_of(kNxd, with(flash, {{"parallel", {{"context", 2}, {"context_mode", "ring"}}}}));
  CHECK(ring["model"]["fusions"] == json{{"softmax", true}, {"flash_attention", false}, {"ring_attention", true}});  // modeling_llama.py refuses both
  const json cut = file_of(kNxd, with(flash, {{"parallel", {{"pipeline", 4}, {"pipeline_split", {1, 3, 3, 1}}}}}));
  CHECK(cut["model"]["pipeline_cuts"] == json{"model.layers.0", "model.layers.3", "model.layers.6"});
  const json ends = {{"parallel", {{"pipeline", 5}, {"data", 6}, {"tensor", 1}, {"pipeline_split", {0, 3, 3, 2, 0}}}}, {"training", {{"global_batch_size", 60}}},
                     {"cluster", {{"devices", 30}}}, {"stack", {{"rules", "note"}}}};
  CHECK_THROWS_WITH(file_of(kNxd, with(flash, ends)), Catch::Contains("plan.json: parallel.pipeline_split = [0,3,3,2,0]: has a chunk without a layer"));
  CHECK(unsaid(kNxd, {{"training", {{"flash_attention", true}}}}).front().starts_with("training.flash_attention: true"));  // GPT is no LLaMA
}

TEST_CASE("an option that NxD Training did not have yet is not written") {
  const json moe = {{"model", with(kLlama, {{"moe", {{"num_experts", 8}, {"experts_per_token", 2}}}})}, {"parallel", {{"expert", 4}}}};
  CHECK(file_of(kNxd, moe)["model"]["moe"]["dropless"] == true);
  CHECK(unsaid(kNxd, moe).empty());
  const json old = with(moe, {{"stack", {{"as_of", "2025-01"}}}});
  CHECK_FALSE(file_of(kNxd, old)["model"]["moe"].contains("dropless"));
  CHECK(unsaid(kNxd, old) == std::vector<std::string>{"model.moe.capacity_factor: 0.0, read back as 4.0"});
}

TEST_CASE("what a file of NxD Training says comes back") {
  const json bf16 = {{"master", "bf16"}, {"gradients", "bf16"}, {"gradient_reduce", "bf16"}, {"optimizer_state", "bf16"}};
  const std::vector<json> all = {
      json::object(),
      {{"model", kLlama}},
      {{"model", with(kLlama, {{"window", {{"size", 512}}}})}},
      {{"model", kLlama}, {"training", {{"flash_attention", true}, {"recompute", "selective"}, {"recompute_modules", {"core_attention", "mlp"}}}}},
      {{"model", kLlama}, {"parallel", {{"context", 2}, {"context_mode", "ring"}}}, {"training", {{"flash_attention", true}}}},
      {{"parallel", {{"pipeline", 2}, {"virtual_pipeline", 2}, {"schedule", "interleaved"}}}},
      {{"model", with(kLlama, {{"moe", {{"num_experts", 8}, {"experts_per_token", 2}, {"capacity_factor", 1.5}, {"aux_loss", 0.01}}}})}},
      {{"training", {{"recompute", "full"}, {"documents", "separate"}, {"clip_grad", 0}}}},
      {{"training", {{"precision", "fp32"}}}},
      {{"training", {{"dtypes", bf16}}}},
      {{"training", {{"dtypes", bf16}, {"stochastic_rounding", true}}}},
      {{"training", {{"learning_rate_decay", "linear"}, {"warmup", 10}, {"steps", 600}}}},
      {{"cluster", {{"preset", "trn2.48xlarge"}}}}};
  for (const json& changes : all) {
    CAPTURE(changes.dump());
    CHECK(unsaid(kNxd, changes) == std::vector<std::string>{});
  }
}

TEST_CASE("a plan becomes a configuration that Megatron-Bridge's ConfigContainer reads") {
  const json file = file_of(kBridge, {{"model", kLlama}, {"training", {{"learning_rate", 1e-5}}}});
  CHECK(file["_target_"] == "megatron.bridge.training.config.ConfigContainer");
  CHECK(file["model"]["_target_"] == "megatron.bridge.models.gpt_provider.GPTModelProvider");
  CHECK(file["model"]["gated_linear_unit"] == true);
  CHECK(file["model"]["activation_func"] == json({{"_target_", "torch.nn.functional.silu"}, {"_call_", false}}));
  CHECK(file["optimizer"]["lr"] == 1e-5);
  CHECK(file["dataset"]["seq_length"] == 2048);
  // mixed_precision.py, setup: what it says takes the place of the model's.
  CHECK(file["mixed_precision"]["grad_reduce_in_fp32"] == file["ddp"]["grad_reduce_in_fp32"]);
  // config.py, ConfigContainer: sections without a default.
  for (const char* section : {"train", "model", "optimizer", "scheduler", "dataset", "logger", "tokenizer", "checkpoint"})
    CHECK(file[section].contains("_target_"));
}

// NVIDIA-NeMo/Megatron-Bridge 067f987df: training/config.py, ConfigContainer.validate refuses a model and a dataset of unlike lengths.
TEST_CASE("a model and a dataset of Megatron-Bridge have one length, and learned positions of another are refused") {
  const json longer = {{"max_position_embeddings", 8192}};
  const json rotary = {{"model", with(kLlama, longer)}};
  CHECK(file_of(kBridge, rotary)["model"]["seq_length"] == 2048);
  CHECK(exported(kBridge, plan_of(kBridge, rotary)).elsewhere == std::vector<std::string>{"model.max_position_embeddings"});
  CHECK(unsaid(kBridge, rotary).empty());
  CHECK(unsaid(kBridge, {{"model", longer}}) == std::vector<std::string>{"model.max_position_embeddings: 8192, read back as 2048"});
  CHECK(exported(kBridge, plan_of(kBridge, json::object())).elsewhere.empty());
}

TEST_CASE("what a configuration of Megatron-Bridge says comes back") {
  const json latent = {{"latent", {{"kv_rank", 512}, {"query_rank", 768}, {"rotary_dim", 64}}}, {"head_dim", 192}, {"position_embedding", "rope"}};
  const std::vector<json> all = {
      json::object(),
      {{"model", kLlama}},
      {{"model", latent}},
      {{"model", {{"window", {{"size", 128}, {"layers", "wf"}}}, {"attention_sinks", true}}}},
      {{"model", {{"position_embedding", "rope"}, {"rope_scaling", {{"type", "yarn"}, {"factor", 32}, {"original_max_position_embeddings", 4096}}}}}},
      {{"model", {{"moe", {{"num_experts", 16}, {"experts_per_token", 4}, {"ffn_hidden_size", 512}, {"num_shared_experts", 2}, {"first_dense_layers", 1}}}}},
       {"parallel", {{"expert", 8}, {"expert_tensor", 1}, {"token_dispatcher", "deepep"}, {"sequence_parallel", true}}}},
      {{"parallel", {{"pipeline", 4}, {"pipeline_split", {1, 3, 3, 1}}}}},
      {{"parallel", {{"pipeline", 2}, {"virtual_pipeline", 2}, {"schedule", "interleaved"}}}},
      {{"parallel", {{"context", 2}, {"context_mode", "ulysses"}, {"zero_group", 8}}}},
      {{"parallel", {{"context", 4}, {"ulysses", 2}}}},
      {{"parallel", {{"zero_stage", 3}}}},
      {{"training", {{"precision", "fp8_block"}}}},
      {{"training", {{"precision", "fp16"}}}, {"parallel", {{"overlap_grad_reduce", true}, {"bucket_bytes", 80000000}}}},
      {{"training", {{"precision", "fp16"}, {"loss_scale", {{"initial", 65536}}}, {"dtypes", {{"gradients", "fp32"}, {"gradient_reduce", "fp32"}}}}}},
      {{"training", {{"recompute", "selective"}, {"recompute_modules", {"core_attention", "mlp"}}}}},
      {{"training", {{"learning_rate_decay", "cosine"}, {"decay_over", 500}, {"warmup", 10}, {"steps", 400}, {"min_learning_rate", 1e-5}}}},
      {{"training", {{"optimizer", "sgd"}, {"momentum", 0.9}, {"batch_rampup", {{"start", 32}, {"increment", 32}, {"samples", 640}}}}}}};
  for (const json& changes : all) {
    CAPTURE(changes.dump());
    CHECK(unsaid(kBridge, changes) == std::vector<std::string>{});
  }
}

// NVIDIA-NeMo/Megatron-Bridge 067f987df: training/config.py, utils/cuda_graph.py and models/gpt_provider.py refuse other combinations.
TEST_CASE("CUDA graphs and weights in MXFP8 have the options that Megatron-Bridge asks for beside them") {
  const auto graphs = [](const char* of) { return json{{"training", {{"cuda_graphs", of}}}}; };
  for (const char* of : {"none", "layers", "iteration"}) CHECK(unsaid(kBridge, graphs(of)).empty());
  CHECK(file_of(kBridge, graphs("layers"))["model"]["cuda_graph_impl"] == "transformer_engine");
  CHECK(file_of(kBridge, graphs("layers"))["model"]["use_te_rng_tracker"] == true);
  CHECK(file_of(kBridge, graphs("iteration"))["rerun_state_machine"]["check_for_nan_in_loss"] == false);
  CHECK_FALSE(file_of(kBridge, graphs("none")).contains("rerun_state_machine"));
  const json narrow = {{"cluster", {{"preset", "dgx-b200"}}}, {"training", {{"precision", "mxfp8"}, {"dtypes", {{"weights", "mxfp8"}}}}}};
  CHECK(file_of(kBridge, narrow)["mixed_precision"]["fp8_param_gather"] == true);
  CHECK(file_of(kBridge, narrow)["mixed_precision"]["reuse_grad_buf_for_mxfp8_param_ag"] == true);
  CHECK(unsaid(kBridge, narrow).empty());
}

TEST_CASE("a field that Megatron-Bridge has no option for is named with both values") {
  CHECK(unsaid(kBridge, {{"model", {{"logit_soft_cap", 30}}}}) == std::vector<std::string>{"model.logit_soft_cap: 30.0, read back as 0.0"});
}

TEST_CASE("weights in NVFP4 are exported to Megatron-Bridge") {
  const json four = {{"training", {{"precision", "nvfp4"}, {"dtypes", {{"weights", "nvfp4"}}}}}, {"cluster", {{"preset", "dgx-b200"}}}};
  const json file = file_of(kBridge, four);
  CHECK(file["model"]["fp4_param"] == true);
  CHECK(file["ddp"]["fp4_param_gather"] == true);
  CHECK(file["mixed_precision"]["fp4_param_gather"] == true);
  CHECK(unsaid(kBridge, four).empty());
}

// megatron/core/optimizer/optimizer_config.py asserts the distributed optimizer with the precision-aware one, and
// megatron/training/determinism.py no fused loss, which megatron/bridge/models/gpt_provider.py has by default.
TEST_CASE("a file of Megatron-Bridge passes what its configurations assert") {
  const json narrow = {{"training", {{"dtypes", {{"optimizer_state", "bf16"}}}}}}, exact = {{"training", {{"deterministic", true}}}};
  CHECK(file_of(kBridge, narrow)["optimizer"]["use_distributed_optimizer"] == true);
  CHECK(file_of(kBridge, exact)["model"]["cross_entropy_loss_fusion"] == false);
  CHECK(unsaid(kBridge, narrow).empty());
  CHECK(unsaid(kBridge, exact).empty());
}
