#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/arguments/imported_plan.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/models/arguments/imported_field.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

const std::string kHead = "_target_: megatron.bridge.training.config.ConfigContainer\n";
const std::string kModel =
    "model:\n  _target_: megatron.bridge.models.gpt_provider.GPTModelProvider\n  activation_func: {_call_: false, _target_: torch.nn.functional.silu}\n"
    "  gated_linear_unit: true\n  add_bias_linear: false\n  attention_backend: {_args_: [3], _call_: true, _target_: megatron.core.transformer.enums.AttnBackend}\n"
    "  bf16: true\n  num_layers: 24\n  hidden_size: 1024\n  ffn_hidden_size: 2816\n  num_attention_heads: 16\n  num_query_groups: 4\n  normalization: RMSNorm\n"
    "  position_embedding_type: rope\n  rotary_base: 500000.0\n  share_embeddings_and_output_weights: false\n  seq_length: 8192\n  vocab_size: 32000\n"
    "  should_pad_vocab: true\n  make_vocab_size_divisible_by: 128\n  tensor_model_parallel_size: 2\n  sequence_parallel: true\n  hidden_dropout: 0.0\n"
    "  attention_dropout: 0.0\n  init_method: {_args_: [], _partial_: true, _target_: torch.nn.init.normal_, mean: 0.0, std: 0.02}\n";
const std::string kRest =
    "train: {global_batch_size: 64, micro_batch_size: 2, train_iters: 300}\ndataset: {_target_: megatron.bridge.training.config.GPTDatasetConfig, sequence_length: 2048}\n"
    "ddp: {use_distributed_optimizer: true, overlap_grad_reduce: true, overlap_param_gather: true, grad_reduce_in_fp32: true, bucket_size: 40000000}\n"
    "optimizer: {optimizer: adam, lr: 3e-4, min_lr: 3e-5, adam_beta2: 0.95, weight_decay: 0.1, exp_avg_dtype: {_call_: false, _target_: torch.float32}}\n"
    "scheduler: {lr_decay_style: cosine, lr_decay_iters: 200, lr_warmup_iters: 20}\nrng: {seed: 7}\nmixed_precision: {bf16: true, grad_reduce_in_fp32: true}\n"
    "comm_overlap: null\npeft: null\n";

std::string some_bridge(const std::string& more_of_model = "") { return kHead + kModel + more_of_model + kRest; }

arguments::ImportedPlan imported(const std::string& text, std::int64_t devices = 16) {
  return arguments::import_arguments(text, "run_config.yaml", arguments::read_table("megatron-bridge"), {"dgx-h100", devices, "", 0, {2026, 8}});
}

using tests::field;

json field(const std::string& text, const std::string& path) { return field(imported(text), path); }

}  // namespace

TEST_CASE("a run_config.yaml of Megatron-Bridge is a whole plan") {
  const arguments::ImportedPlan plan = imported(some_bridge());
  CHECK(field(plan, "model.activation") == "swiglu");
  CHECK(field(plan, "model.num_kv_heads") == 4);
  CHECK(field(plan, "model.pad_vocab_to") == 256);
  CHECK(field(plan, "parallel.zero_stage") == 1);
  CHECK(field(plan, "parallel.bucket_bytes") == 160'000'000);  // 40M elements of 4 bytes
  CHECK(field(plan, "parallel.overlap_param_gather") == true);
  CHECK(field(plan, "training.seq_length") == 2048);  // the dataset's, not the model's longest
  CHECK(field(plan, "training.dtypes.gradient_reduce") == "fp32");
  CHECK(field(plan, "training.flash_attention") == false);  // AttnBackend 3 is unfused
  CHECK(field(plan, "training.decay_over") == 200);
  CHECK(field(plan, "training.seed") == 7);
  CHECK(plan.unknown.empty());
  CHECK(arguments::refusals(plan).empty());
  CHECK(parse_plan(plan.document->dump(), "plan.json").parallel.data == 8);
}

// NVIDIA-NeMo/Megatron-Bridge 067f987df: models/gpt/model_config.py, whose BridgeGPTModelConfig keeps Megatron-Core's fields in `transformer`
TEST_CASE("a model whose layers stand in a section of their own is the same plan") {
  const std::string text = kHead + kModel + kRest;
  std::string nested = kHead + "model:\n  _builder_: megatron.bridge.models.gpt.gpt_builder.GPTModelBuilder\n"
                       "  _target_: megatron.bridge.models.gpt.model_config.BridgeGPTModelConfig\n  transformer:\n";
  std::string line;
  std::istringstream lines(kModel.substr(kModel.find('\n') + 1));
  while (std::getline(lines, line))
    if (line.find("activation_func") != std::string::npos) nested += "    activation_func: silu\n";
    else if (line.find("_target_: megatron.bridge") == std::string::npos) nested += "  " + line + "\n";
  nested += "  extra_checkpoint_metadata: {hf_model_id: meta-llama/Meta-Llama-3-8B}\n";
  CHECK(imported(nested + kRest).unknown.empty());
  CHECK(arguments::refusals(imported(nested + kRest)).empty());
  const std::string ranks = "  context_parallel_size: 2\n  cp_comm_type: ";  // Transformer Engine's own is p2p
  CHECK(*imported(kHead + kModel + ranks + "null\n" + kRest).document == *imported(kHead + kModel + ranks + "p2p\n" + kRest).document);
  CHECK(*imported(nested + kRest).document == *imported(text).document);
}

TEST_CASE("hybrid, linear and yarn models of Megatron-Bridge are those of Megatron-LM") {
  const std::string hybrid = "  is_hybrid_model: true\n  hybrid_override_pattern: M-M*\n  mamba_num_heads: 32\n  mamba_head_dim: 64\n  mamba_num_groups: 8\n"
                             "  mamba_state_dim: 128\n";
  CHECK(field(some_bridge(hybrid), "model.sublayers") == "mfm");
  CHECK(field(some_bridge(hybrid), "model.recurrence.heads") == 32);
  CHECK(field(some_bridge(hybrid), "model.num_layers") == 4);
  CHECK(field(some_bridge("  is_hybrid_model: true\n  hybrid_attention_ratio: 0.25\n  hybrid_mlp_ratio: 0.5\n  mamba_head_dim: 64\n"), "model.num_layers") == 24);
  CHECK(field(some_bridge("  experimental_attention_variant: gdn\n  linear_attention_freq: 4\n"), "model.recurrence.layers") == "rrra");
  const std::string latent = "  multi_latent_attention: true\n  qk_layernorm: true\n  q_lora_rank: 256\n  kv_lora_rank: 512\n  qk_head_dim: 128\n  v_head_dim: 128\n"
                             "  qk_pos_emb_head_dim: 64\n  rope_type: yarn\n  rotary_scaling_factor: 40\n  original_max_position_embeddings: 2048\n  beta_fast: 16\n"
                             "  mscale: 1.0\n  mscale_all_dim: 1.0\n";
  CHECK(field(some_bridge(latent), "model.rope_scaling.factor") == 40);
  CHECK(field(some_bridge(latent), "model.rope_scaling.original_max_position_embeddings") == 2048);
  CHECK(field(some_bridge(latent), "model.rope_scaling.beta_fast") == 16);
  CHECK(field(some_bridge(latent), "model.rope_scaling.mscale_all_dim") == 1);
}

TEST_CASE("fields of Megatron-Bridge are told with their section") {
  const arguments::ImportedPlan plan = imported(some_bridge());
  const auto batch = std::find_if(plan.fields.begin(), plan.fields.end(), [](const auto& f) { return f.path == "training.global_batch_size"; });
  REQUIRE(batch != plan.fields.end());
  CHECK(std::any_of(batch->value.from.begin(), batch->value.from.end(), [](const auto& f) { return f.field == "train.global_batch_size"; }));
}

TEST_CASE("what Megatron-Bridge adds to Megatron-LM's fields") {
  CHECK(field(some_bridge("  num_moe_experts: 8\n  moe_router_topk: 2\n  moe_ffn_hidden_size: 512\n"), "model.moe.num_experts") == 8);
  CHECK(field(some_bridge("  num_layers_in_first_pipeline_stage: 10\n  pipeline_model_parallel_size: 2\n"), "parallel.pipeline_split") == json{10, 14});
  CHECK(field(some_bridge("  scale_factor: 32.0\n"), "model.rope_scaling.type") == "llama3");
  CHECK_FALSE(arguments::refusals(imported(some_bridge("  a_new_field: 3\n"))).empty());
}

TEST_CASE("a run_config.yaml does not say on how many devices it ran") {
  CHECK_THROWS_AS(imported(some_bridge(), 0), ConfigError);
}

TEST_CASE("a precision of Megatron-Bridge that its model does not have is refused, and fp32 has gradients of its own") {
  arguments::PlanNeeds needs{"dgx-h100", 16, "", 0, {2026, 8}};
  needs.set = {{"model.bf16", false}};
  const auto plan = arguments::import_arguments(some_bridge(), "run_config.yaml", arguments::read_table("megatron-bridge"), needs);
  CHECK(arguments::refusals(plan).front().reason.find("mixed_precision") != std::string::npos);
  needs.set = {{"model.bf16", false}, {"mixed_precision", nullptr}, {"ddp.grad_reduce_in_fp32", false}};
  const auto wide = arguments::import_arguments(some_bridge(), "run_config.yaml", arguments::read_table("megatron-bridge"), needs);
  CHECK(field(wide, "training.precision") == "fp32");
  CHECK(field(wide, "training.dtypes.gradient_reduce").is_null());
  needs.set = {{"model.bf16", false}, {"mixed_precision", {{"fp32", true}}}, {"ddp.grad_reduce_in_fp32", false}};
  CHECK(arguments::refusals(arguments::import_arguments(some_bridge(), "run_config.yaml", arguments::read_table("megatron-bridge"), needs)).empty());
}

namespace {

bool refused(const std::string& more_of_model, const std::vector<std::pair<std::string, json>>& set, const std::string& word) {
  arguments::PlanNeeds needs{"dgx-h100", 16, "", 0, {2026, 8}};
  needs.set = set;
  const auto all = arguments::refusals(
      arguments::import_arguments(some_bridge(more_of_model), "run_config.yaml", arguments::read_table("megatron-bridge"), needs));
  const auto has = [&](const Problem& p) { return (p.field + p.reason).find(word) != std::string::npos; };
  return std::any_of(all.begin(), all.end(), has);
}

}  // namespace

// CommOverlapConfig of megatron/bridge/training/comm_overlap.py turns the overlap off itself without tensor ranks or sequence parallelism.
TEST_CASE("an overlap of tensor ranks that Megatron-Bridge turns off itself is no reason to refuse") {
  const std::pair<std::string, json> asked{"comm_overlap", {{"tp_comm_overlap", true}, {"tp_comm_bootstrap_backend", "nccl"}}};
  CHECK(refused("", {asked}, "comm_overlap"));
  CHECK_FALSE(refused("", {asked, {"model.tensor_model_parallel_size", 1}}, "comm_overlap"));
  CHECK_FALSE(refused("", {asked, {"model.sequence_parallel", false}}, "comm_overlap"));
}

TEST_CASE("weights that Megatron-Bridge keeps in NVFP4 are a plan's") {
  const std::string four = "  fp4: e2m1\n  fp4_param: true\n";
  arguments::PlanNeeds needs{"dgx-b200", 16, "", 0, {2026, 8}};
  needs.set = {{"ddp.fp4_param_gather", true}};
  const arguments::Table table = arguments::read_table("megatron-bridge");
  const auto read = [&] { return arguments::import_arguments(some_bridge(four), "run_config.yaml", table, needs); };
  CHECK(field(read(), "training.precision") == "nvfp4");
  CHECK(field(read(), "training.dtypes.weights") == "nvfp4");
  CHECK(arguments::refusals(read()).empty());
  needs.set = {{"ddp.fp4_param_gather", false}};
  CHECK(field(read(), "training.dtypes.weights") == "bf16");
}

TEST_CASE("options of Megatron-Bridge that need others do nothing alone") {
  const std::string experts = "  num_moe_experts: 8\n  moe_router_topk: 2\n  moe_ffn_hidden_size: 512\n";
  CHECK_FALSE(refused(experts + "  moe_paged_stash_buffer_size_factor_cuda: 1.2\n", {}, "paged"));
  CHECK_FALSE(refused("  offload_modules: []\n", {}, "offload"));
  CHECK(field(some_bridge("  offload_modules: [moe_act]\n"), "parallel.offload.activations").is_null());
  CHECK_FALSE(refused("", {{"ddp.delay_wgrad_compute", true}}, "delay_wgrad"));
  CHECK(field(some_bridge("  external_cuda_graph: true\n"), "training.cuda_graphs") == "layers");
  // Kernels that no plan says are told by name.
  const auto told = imported(some_bridge(experts + "  use_transformer_engine_op_fuser: true\n"));
  CHECK(arguments::refusals(told).empty());
  CHECK(std::any_of(told.features.begin(), told.features.end(), [](const auto& f) { return f.name.find("op_fuser") != std::string::npos; }));
}

TEST_CASE("activations that Megatron-Bridge offloads are the plan's") {
  const std::string fine = "  fine_grained_activation_offloading: true\n";
  CHECK(field(some_bridge(fine + "  offload_modules: [core_attn, attn_proj]\n"), "parallel.offload.activations") == json{"core_attention", "projection"});
  CHECK(field(some_bridge(fine + "  offload_modules: [expert_fc1, moe_act]\n"), "parallel.offload.activations") == json{"moe_input", "moe_activation"});
  CHECK(field(some_bridge(fine + "  offload_modules: [fused_group_mlp]\n"), "parallel.offload.activations") == json{"moe"});
  CHECK(refused(fine + "  offload_modules: [gdp_qkv]\n", {}, "host"));
  const std::string layers = "  cpu_offloading: true\n  cpu_offloading_num_layers: 20\n";
  CHECK(field(some_bridge(layers), "parallel.offload.activations") == json{"all"});
  CHECK(field(some_bridge(layers), "parallel.offload.layers") == 20);
  CHECK(field(some_bridge("  cpu_offloading_num_layers: 95\n"), "parallel.offload.activations").is_null());
  CHECK_FALSE(refused(layers, {}, "host"));
  CHECK(refused(layers + "  pipeline_model_parallel_size: 2\n", {}, "Megatron-LM refuses"));
  CHECK(refused(layers + "  recompute_granularity: selective\n", {}, "Megatron-LM refuses"));
  CHECK(refused(layers + "  cpu_offloading_weights: true\n", {}, "weights"));
}

TEST_CASE("how far Megatron-FSDP gathers ahead is told") {
  const auto all = [](const json& set) {
    arguments::PlanNeeds needs{"dgx-h100", 16, "", 0, {2026, 8}};
    needs.set = {{"ddp.suggested_communication_unit_size", 800'000'000}};
    for (const auto& [name, value] : set.items()) needs.set.emplace_back(name, value);
    return arguments::import_arguments(some_bridge(), "run_config.yaml", arguments::read_table("megatron-bridge"), needs);
  };
  const auto told = [](const arguments::ImportedPlan& plan) {
    const auto has = [](const auto& f) { return f.name.find("gathers ahead") != std::string::npos; };
    return std::any_of(plan.features.begin(), plan.features.end(), has);
  };
  const auto sharded = all({{"ddp.use_megatron_fsdp", true}, {"ddp.data_parallel_sharding_strategy", "optim_grads_params"}});
  CHECK(arguments::refusals(sharded).empty());
  CHECK(told(sharded));
  CHECK_FALSE(told(all(json::object())));
}

// megatron/core/transformer/transformer_config.py: a rank has room for the factor times an even share of rows; pages keep those of the backward pass.
TEST_CASE("room for rows of experts is the plan's, and that of pages where they are kept in pages") {
  const std::string experts = "  num_moe_experts: 8\n  moe_router_topk: 2\n  moe_ffn_hidden_size: 512\n  moe_expert_rank_capacity_factor: 1.5\n";
  CHECK(field(some_bridge(experts), "model.moe.rows_bound") == 1.5);
  const std::string paged = experts + "  moe_paged_stash: true\n  moe_paged_stash_buffer_size_factor_cuda: ";
  CHECK(field(some_bridge(paged + "1.2\n"), "model.moe.rows_bound") == 1.2);
  CHECK_FALSE(refused(paged + "1.2\n", {}, "pages"));
  CHECK(refused(paged + "-1.2\n", {}, "pages"));
  const std::string host = "\n  moe_paged_stash_buffer_size_factor_cpu: 1.0\n";  // for what the device has no page
  CHECK_FALSE(refused(paged + "1.2" + host, {}, "pages"));
  CHECK(refused(paged + "0.8" + host, {}, "pages"));
}
