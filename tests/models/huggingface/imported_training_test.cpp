// What a configuration says of training and of its weights' format, beside the model: dropout, lengths of rotated vectors, quantization.

#include "models/huggingface/imported_model.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/models/huggingface/configs.hpp"

using namespace tandem;
using huggingface::ImportedModel;
using nlohmann::json;
using tests::Configs;
using tests::kSmall;
using tests::refused;
using tests::with;

namespace {

/// A field of the plan's training section; null where the configuration leaves it to the framework.
json training(const ImportedModel& model, const std::string& path) {
  for (const huggingface::ImportedField& f : model.training)
    if (f.path == path) return f.value.value();
  return nullptr;
}

bool names(const ImportedModel& model, const std::string& beginning) {
  return std::any_of(model.features.begin(), model.features.end(), [&](const auto& f) { return f.name.starts_with(beginning); });
}

}  // namespace

// huggingface/transformers 5.24.0, defaults of the classes: GPT2Config, BertConfig, T5Config, OPTConfig, FalconConfig, SeedOssConfig.

TEST_CASE("a configuration's dropout is the plan's, and its class' where the file has none") {
  Configs configs;
  const auto dropouts = [&](const json& config) {
    const ImportedModel model = configs.import(config);
    return std::pair(training(model, "training.dropout.hidden"), training(model, "training.dropout.attention"));
  };
  for (const char* type : {"gpt2", "bert", "t5", "xglm", "seed_oss"}) {
    INFO(type);
    CHECK(dropouts({{"model_type", type}}) == std::pair(json(0.1), json(0.1)));
  }
  CHECK(dropouts({{"model_type", "gpt2"}, {"resid_pdrop", 0.2}, {"attn_pdrop", 0.0}}) == std::pair(json(0.2), json(0.0)));
  CHECK(dropouts({{"model_type", "opt"}}) == std::pair(json(0.1), json(0.0)));
  CHECK(dropouts({{"model_type", "falcon"}}) == std::pair(json(0.0), json(0.0)));
  CHECK(dropouts({{"model_type", "llama"}}) == std::pair(json(), json()));  // no framework has any for LLaMA models
  CHECK(dropouts({{"model_type", "llama"}, {"attention_dropout", 0.1}}) == std::pair(json(), json(0.1)));
}

TEST_CASE("dropout where a plan has none is told, and does not matter to trained weights") {
  Configs configs;
  const auto told = [&](const json& config) {
    std::vector<std::string> out;
    for (const huggingface::MissingFeature& f : configs.import(config).features)
      if (f.training) out.push_back(f.name);
    return out;
  };
  CHECK(told({{"model_type", "gpt2"}}).empty());
  CHECK(told({{"model_type", "gpt2"}, {"embd_pdrop", 0.0}}) == std::vector<std::string>{"another dropout after the embedding than in layers"});
  CHECK(told({{"model_type", "t5"}}) == std::vector<std::string>{"dropout inside of MLPs"});
  CHECK(told({{"model_type", "opt"}, {"dropout", 0.0}, {"layerdrop", 0.1}}) == std::vector<std::string>{"layers that training leaves out at random"});
  for (const char* type : {"mixtral", "phimoe"}) {
    const json noisy = {{"model_type", type}, {"router_jitter_noise", 0.02}};
    CHECK(told(noisy) == std::vector<std::string>{"noise on what routers read in training"});
  }
  CHECK(told({{"model_type", "mixtral"}}).empty());
}

// huggingface/transformers 5.24.0: modeling_rope_utils.py, _compute_yarn_parameters; the plan's is 1 + 0.1 ln(factor), of DeepSeek-V3
// with mscale_all_dim 1.
TEST_CASE("another length of rotated vectors than the plan's YaRN has is told") {
  Configs configs;
  const auto told = [&](const char* type, const json& more) {
    json rope = {{"rope_type", "yarn"}, {"rope_theta", 1e4}, {"factor", 16.0}, {"original_max_position_embeddings", 64}};
    rope.update(more);
    return names(configs.import({{"model_type", type}, {"rope_parameters", rope}}), "a length of rotated queries");
  };
  for (const char* type : {"llama", "ministral3"}) {
    INFO(type);
    CHECK_FALSE(told(type, json::object()));
    CHECK_FALSE(told(type, {{"mscale", 0.7}}));  // transformers reads it beside mscale_all_dim alone
    CHECK_FALSE(told(type, {{"attention_factor", 1.2772588722}}));
    CHECK(told(type, {{"attention_factor", 1.1}}));
    const bool kept = type == std::string("ministral3");  // its plan keeps the length: mscale_all_dim 1
    CHECK(told(type, {{"attention_factor", 1.0}}) != kept);
    CHECK(told(type, {{"mscale", 1.0}, {"mscale_all_dim", 1.0}}) != kept);
  }
  CHECK_FALSE(names(configs.import(json{{"model_type", "ministral3"}}), "a length of rotated queries"));  // its class has both as 1
  CHECK(names(configs.import(json{{"model_type", "ministral3"}}), "queries that are scaled by their position"));
  CHECK_FALSE(told("deepseek_v3", {{"mscale", 1.0}, {"mscale_all_dim", 1.0}}));
  CHECK(told("deepseek_v3", {{"mscale", 0.7}, {"mscale_all_dim", 1.0}}));
  CHECK(told("deepseek_v3", {{"mscale_all_dim", 1.0}}));
}

// huggingface/transformers 5.24.0: configuration_deepseek_v32.py, num_experts takes the place of n_routed_experts;
// configuration_dots1.py, layers from max_window_layers on have windows.
TEST_CASE("fields that a class reads in place of others are read so") {
  Configs configs;
  const auto experts = [&](const json& config) { return configs.import(config).section()["moe"]["num_experts"]; };
  CHECK(experts({{"model_type", "deepseek_v32"}, {"n_routed_experts", 64}, {"num_experts", 128}}) == 128);
  CHECK(experts({{"model_type", "deepseek_v32"}, {"n_routed_experts", 64}}) == 64);
  const json dots = {{"model_type", "dots1"}, {"num_hidden_layers", 4}, {"n_routed_experts", 8}, {"n_shared_experts", 1}, {"num_experts_per_tok", 2}, {"sliding_window", 64}};
  CHECK_FALSE(configs.import(dots).section().contains("window"));
  const json dbrx = configs.import(json{{"model_type", "dbrx"}, {"attn_config", {{"clip_qkv", nullptr}}}}).section();  // DbrxAttentionConfig, DbrxFFNConfig
  CHECK((dbrx["num_kv_heads"] == 1 && dbrx["moe"]["num_experts"] == 4 && dbrx["moe"]["ffn_hidden_size"] == 3584));
  CHECK(configs.import(with(dots, {{"max_window_layers", 2}})).section()["window"] == json{{"size", 64}, {"layers", "ffww"}});
  CHECK(names(configs.import(json{{"model_type", "deepseek_v3"}, {"rope_interleave", false}}), "rotary dimensions in halves"));
}

TEST_CASE("quantized weights are counted as those they were quantized from, and told by their method") {
  Configs configs;
  const std::int64_t whole = configs.import(kSmall).counts.parameters;
  const std::vector<std::pair<json, std::string>> methods{
      {{{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}}, "unquantized_fp8"},
      {{{"quant_method", "mxfp4"}}, "unquantized_mxfp4"},
      {{{"load_in_8bit", true}}, "unquantized_base"},
      {{{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}}, "unquantized_base"},
      {{{"quant_method", "awq"}, {"bits", 4}}, "unquantized"},
      {{{"quant_method", "gptq"}, {"bits", 4}}, "unquantized"},
      {{{"quant_method", "compressed-tensors"}}, "unquantized"},
      {{{"quant_method", "torchao"}, {"quant_type", "int4_weight_only"}}, "unquantized"},
      {{{"group_size", 64}, {"bits", 4}}, "unquantized"}};  // MLX says no method
  for (const auto& [said, id] : methods) {
    INFO(said.dump());
    const ImportedModel model = configs.import(with(kSmall, {{"quantization_config", said}}));
    CHECK(model.counts.parameters == whole);
    CHECK(refused(model).empty());
    REQUIRE(model.features.size() == 1);
    CHECK(model.features.front().id == id);
  }
}
