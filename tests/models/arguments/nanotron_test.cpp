#include <nlohmann/json.hpp>

#include "models/arguments/costed_split.hpp"
#include "models/arguments/imported_plan.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/models/arguments/imported_field.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

const std::string kLlama = "is_llama_config: true, hidden_size: 2048, intermediate_size: 8192, num_attention_heads: 16, num_key_value_heads: 4, "
                           "num_hidden_layers: 24, vocab_size: 50001, tie_word_embeddings: true, rms_norm_eps: 1e-5";
const std::string kQwen = "is_qwen2_config: true, hidden_size: 2048, intermediate_size: 8192, num_attention_heads: 16, num_key_value_heads: 4, "
                          "num_hidden_layers: 24, vocab_size: 50001, attention_bias: true";
const std::string kRanks = "dp: 4, tp: 2, pp: 2, pp_engine: 1f1b, tp_mode: REDUCE_SCATTER, tp_linear_async_communication: true";

/// A file of nanotron; `model`, `ranks` and `optimizer` are fields of its sections.
std::string some(const std::string& model, const std::string& ranks = kRanks, const std::string& optimizer = "zero_stage: 0, accumulate_grad_in_fp32: true") {
  return "general: {project: a, seed: 7}\nmodel: {dtype: bfloat16, ddp_bucket_cap_mb: 50, make_vocab_size_divisible_by: 4, init_method: {std: 0.02},\n"
         "  model_config: {" + model + "}}\nparallelism: {" + ranks + "}\n"
         "tokens: {sequence_length: 4096, train_steps: 1000, micro_batch_size: 2, batch_accumulation_per_replica: 8}\n"
         "optimizer: {" + optimizer + ", clip_grad: 1.0, weight_decay: 0.1,\n  optimizer_factory: {name: adamW, adam_beta1: 0.9, adam_beta2: 0.95, adam_eps: 1e-8},\n"
         "  learning_rate_scheduler: {learning_rate: 3e-4, lr_warmup_steps: 100, lr_decay_style: cosine, min_decay_lr: 3e-5}}\n"
         "checkpoints: {checkpoints_path: a_folder, checkpoint_interval: 500}\n";
}

arguments::ImportedPlan imported(const std::string& text) {
  return arguments::import_arguments(text, "run.yaml", arguments::read_table("nanotron"), {"dgx-h100", 0, "", 0, {2026, 4}});
}

using tests::field;

bool told(const arguments::ImportedPlan& plan, const std::string& part) {
  for (const auto& feature : plan.features)
    if (feature.name.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("a file of nanotron is a whole plan") {
  const arguments::ImportedPlan plan = imported(some(kLlama));
  CHECK(field(plan, "cluster.devices") == 16);
  CHECK(field(plan, "stack") == "nanotron");
  CHECK(field(plan, "parallel.sequence_parallel") == true);
  CHECK(field(plan, "parallel.overlap_tensor_sum") == true);
  CHECK(field(plan, "parallel.overlap_grad_reduce") == true);
  CHECK(field(plan, "parallel.bucket_bytes") == 2 * 50 * 1024 * 1024);  // ddp_bucket_cap_mb counts bf16, sums are fp32
  CHECK(field(plan, "training.global_batch_size") == 2 * 8 * 4);        // config.py, global_batch_size
  CHECK(field(plan, "training.dtypes.gradients") == "fp32");
  CHECK(field(plan, "model.pad_vocab_to") == 8);  // trainer.py, _vocab_size_with_padding: times tensor ranks
  CHECK(field(plan, "training.seed") == 7);
  CHECK(plan.unknown.empty());
  CHECK(plan.unsaid.empty());
  CHECK(arguments::refusals(plan).empty());
  CHECK(parse_plan(plan.document->dump(), "plan.json").parallel.data == 4);
}

TEST_CASE("nanotron's defaults are all forward passes first, all-reduces and flash attention") {
  const arguments::ImportedPlan plan = imported(some(kLlama, "dp: 1, tp: 2, pp: 2"));  // parallelism_config.py, __post_init__
  CHECK(field(plan, "parallel.schedule") == "gpipe");
  CHECK(field(plan, "parallel.sequence_parallel") == false);
  CHECK(field(plan, "parallel.overlap_tensor_sum") == false);
  CHECK(field(plan, "training.flash_attention") == true);
  CHECK(field(plan, "training.recompute") == "none");
}

TEST_CASE("ZeRO with fp32 sums reduces whole gradients behind the last backward pass") {
  const arguments::ImportedPlan plan = imported(some(kLlama, kRanks, "zero_stage: 1, accumulate_grad_in_fp32: true"));
  CHECK(field(plan, "parallel.zero_stage") == 1);
  CHECK(field(plan, "parallel.overlap_grad_reduce") == false);
  CHECK(field(plan, "parallel.reduce_scatter") == false);
  CHECK(told(plan, "NotImplementedError"));  // gradient_accumulator.py since 7bc99232
}

TEST_CASE("without fp32 sums nanotron's weights and states are bf16 alone") {
  const arguments::ImportedPlan plan = imported(some(kLlama, kRanks, "zero_stage: 0, accumulate_grad_in_fp32: false"));
  CHECK(field(plan, "training.dtypes.master") == "bf16");
  CHECK(field(plan, "training.dtypes.optimizer_state") == "bf16");
  CHECK(field(plan, "parallel.bucket_bytes") == 50 * 1024 * 1024);
}

TEST_CASE("Qwen2 of nanotron has biases of queries, windows but in layers without rotation, and experts") {
  const arguments::ImportedPlan plan = imported(some(kQwen + ", sliding_window_size: 512, no_rope_layer: 4, _use_doc_masking: true, "
                                                             "moe_config: {num_experts: 8, top_k: 2, moe_intermediate_size: 1024}"));
  CHECK(field(plan, "model.qkv_bias") == true);
  CHECK(field(plan, "model.window.size") == 512);  // qwen.py, window_size=(sliding_window_size - 1, 0)
  CHECK(field(plan, "model.window.layers") == "wwwf");
  CHECK(field(plan, "model.moe.num_experts") == 8);
  CHECK(field(plan, "model.moe.normalize_weights") == false);  // moe.py, a softmax before top-k
  CHECK(field(plan, "training.documents") == "separate");
  CHECK(field(plan, "model.window.full_rotary") == false);
  const arguments::ImportedPlan whole = imported(some(kQwen + ", no_rope_layer: 4"));
  CHECK(field(whole, "model.window.layers") == "wwwf");
  CHECK(field(whole, "model.window.full_rotary") == false);
  CHECK(field(whole, "model.window.size").is_null());
  CHECK(arguments::refusals(plan).empty());
}

TEST_CASE("StarCoder2 of nanotron shares keys, ties embeddings and has biases") {
  const std::string star = "is_starcoder2_config: true, hidden_size: 2048, num_attention_heads: 16, num_hidden_layers: 24, vocab_size: 49152";
  const arguments::ImportedPlan plan = imported(some(star));
  CHECK(field(plan, "model.num_kv_heads") == 1);            // models_config.py: multi_query unless grouped_query
  CHECK(field(plan, "model.ffn_hidden_size") == 4 * 2048);  // starcoder2.py, MLP
  CHECK(field(plan, "model.tie_embeddings") == true);
  CHECK(field(plan, "model.linear_bias") == true);
  CHECK(field(plan, "training.dropout.hidden") == 0.1);
}

TEST_CASE("a file of nanotron that leaves the vocabulary to its data is refused") {
  CHECK_THROWS_AS(imported(some("is_llama_config: true, hidden_size: 64, num_hidden_layers: 2, vocab_size: -1")), ConfigError);
}

TEST_CASE("models that examples of nanotron add are refused by name") {
  CHECK(arguments::refusals(imported(some("is_mamba_config: true, d_model: 64, num_hidden_layers: 2, vocab_size: 64"))).size() == 1);
}

TEST_CASE("stack nanotron sums whole fp32 gradients behind the step's last pass, and shards states alone") {
  json document = json::parse(imported(some(kLlama)).document->dump());
  document["parallel"] = {{"tensor", 2}, {"data", 8}, {"zero_stage", 1}};
  document["training"].erase("dtypes");
  const Plan plan = parse_plan(document.dump(), "plan.json");
  CHECK_FALSE(plan.parallel.overlap_grad_reduce);  // trainer.py, sync_gradients_across_dp
  CHECK_FALSE(plan.parallel.reduce_scatter);       // trainer.py, reduce_scatter=False
  CHECK(plan.training.dtypes.gradients == DType::fp32);
  CHECK(plan.training.flash_attention);
  document["parallel"]["zero_stage"] = 2;
  CHECK_THROWS_AS(parse_plan(document.dump(), "plan.json"), InfeasibleError);
}

TEST_CASE("stages are full when their cost exceeds their share") {
  CHECK(arguments::costed_split(4, 2, 10, 1) == json({3, 1}));       // 20 and then 30 exceed 20.5: the third layer
  CHECK(arguments::costed_split(4, 2, 10, 40) == json({4, 0}));      // 40 does not exceed half of 80
  CHECK(arguments::costed_split(8, 4, 10, 10) == json({3, 2, 2, 1}));  // shares 22.5, 45, 67.5: behind 30, 50 and 70
  CHECK_THROWS_AS(arguments::costed_split(0, 2, 10, 10), ConfigError);
}
