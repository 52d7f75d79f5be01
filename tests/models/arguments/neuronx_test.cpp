#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/arguments/imported_plan.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/models/arguments/imported_field.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

constexpr const char* kStrategy = "{tensor_model_parallel_size: 8, pipeline_model_parallel_size: 4, zero1: true, sequence_parallel: true}";

/// A file of NxD Training on two nodes; `model` is one line of its model's fields.
std::string some_nxdt(const std::string& source, const std::string& model, const std::string& precision = "mixed_precision") {
  return "model_source: " + source + "\nseed: 3\ntrainer: {devices: 32, num_nodes: 2, max_steps: 500, gradient_clip_val: 1.0}\n"
         "exp_manager: {name: a_run}\ndistributed_strategy: " + kStrategy + "\ndata: {micro_batch_size: 1, global_batch_size: 64}\n"
         "bucket_size_collectives: 512\nprecision: {type: " + precision + "}\n"
         "model: {encoder_seq_length: 4096, max_position_embeddings: '${.encoder_seq_length}', optim: {name: adamw, lr: 1e-4, betas: [0.9, 0.95]}, " +
         model + "}\n";
}

const std::string kMegatron = "num_layers: 32, hidden_size: 4096, ffn_hidden_size: 11008, num_attention_heads: 32, num_kv_heads: 8, vocab_size: 32000, "
                              "has_bias: false, activation: swiglu, normalization: rmsnorm, position_embedding_type: rope, "
                              "share_embeddings_and_output_weights: false";

arguments::ImportedPlan imported(const std::string& text, const std::string& model = "") {
  return arguments::import_arguments(text, "run.yaml", arguments::read_table("neuronx"), {"trn1.32xlarge", 0, model, 0, {2024, 7}});
}

using tests::field;

json field(const std::string& text, const std::string& path) { return field(imported(text), path); }

}  // namespace

TEST_CASE("a YAML file of NxD Training's Megatron is a whole plan") {
  const arguments::ImportedPlan plan = imported(some_nxdt("megatron", kMegatron));
  CHECK(field(plan, "cluster.devices") == 64);
  CHECK(field(plan, "parallel.zero_stage") == 1);
  CHECK(field(plan, "parallel.bucket_bytes") == 512'000'000);
  CHECK(field(plan, "training.dropout.hidden") == 0.1);     // megatron_gpt_model.py, hidden_dropout
  CHECK(field(plan, "training.dropout.attention") == 0.0);  // attention_dropout, whose default differs from NeMo's
  CHECK(field(plan, "training.flash_attention") == false);
  CHECK(field(plan, "training.recompute") == "none");
  CHECK(plan.unknown.empty());
  CHECK(arguments::refusals(plan).empty());
  CHECK(parse_plan(plan.document->dump(), "plan.json").parallel.data == 2);
}

TEST_CASE("a model of Hugging Face is named, and the file's own fields count before its") {
  const std::string text = some_nxdt("hf", "model_config: /a/folder/config.json, num_layers: 4, rope_theta: 1e6");
  CHECK_THROWS_AS(imported(text), ConfigError);  // there is no such file
  const arguments::ImportedPlan plan = imported(text, "llama3-8b");
  CHECK(field(plan, "model.preset") == "llama3-8b");
  CHECK(field(plan, "model.num_layers") == 4);
  CHECK(field(plan, "model.rope_theta") == 1e6);
  CHECK(field(plan, "model.activation").is_null());
  // llama_model.py: without flash attention it recomputes CoreAttention although nothing asks for it.
  CHECK(field(plan, "training.recompute") == "selective");
  CHECK(field(plan, "training.recompute_modules") == json{"core_attention"});
}

TEST_CASE("pipeline cuts of NxD name the last layer of a stage") {
  // aws-neuron-sdk, pp_developer_guide.rst: 32 layers in 4 equal stages are cut at layers 7, 15 and 23.
  const std::string equal = some_nxdt("megatron", kMegatron + ", pipeline_cuts: [model.layers.7, model.layers.15, model.layers.23]");
  CHECK(field(equal, "parallel.pipeline_split") == json{8, 8, 8, 8});
  const std::string other = some_nxdt("megatron", kMegatron + ", pipeline_cuts: [model.layers.6, model.layers.15, model.layers.24]");
  CHECK(field(other, "parallel.pipeline_split") == json{7, 9, 9, 7});
}

TEST_CASE("types of precision of NxD Training") {
  const auto precision = [](const std::string& type, const std::string& path) { return field(some_nxdt("megatron", kMegatron, type), path); };
  CHECK(precision("fp32", "training.precision") == "fp32");
  CHECK(precision("mixed_precision", "training.dtypes.master").is_null());
  CHECK(precision("bf16SR", "training.dtypes.master") == "bf16");
  CHECK(precision("bf16SR", "training.stochastic_rounding") == true);
  CHECK(precision("manual, master_weights: true", "training.dtypes.master").is_null());
  CHECK(precision("manual, master_weights: true", "training.dtypes.gradients") == "bf16");
  CHECK_FALSE(arguments::refusals(imported(some_nxdt("megatron", kMegatron, "autocast"))).empty());
}

// llama_model.py, reduce_dtype: bf16 unless the file says fp32, which fp32 training has anyway.
TEST_CASE("sums of NxD Training's tensor ranks that are wider than bf16 are refused by name") {
  const auto refused = [](const std::string& precision) {
    return arguments::refusals(imported(some_nxdt("hf", "num_layers: 4", precision), "llama3-8b")).size();
  };
  CHECK(refused("mixed_precision") == 0);
  CHECK(refused("mixed_precision, parallel_layers_reduce_dtype: bf16") == 0);
  CHECK(refused("mixed_precision, parallel_layers_reduce_dtype: fp32") == 1);
  CHECK(refused("fp32, parallel_layers_reduce_dtype: fp32") == 0);
}

TEST_CASE("experts of NxD Training have its defaults") {
  const std::string moe = some_nxdt("megatron", kMegatron + ", moe: {num_experts: 8, top_k: 2}");
  CHECK(field(moe, "model.moe.capacity_factor") == 4);  // num_experts / top_k
  CHECK(field(moe, "model.moe.normalize_weights") == true);
  CHECK(field(moe, "model.moe.aux_loss") == 0);
  CHECK(field(some_nxdt("megatron", kMegatron + ", moe: {num_experts: 8, top_k: 2, dropless: true, capacity_factor: 2.0}"), "model.moe.capacity_factor") == 0);
}
