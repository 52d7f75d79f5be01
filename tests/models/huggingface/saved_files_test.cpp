// Configurations as transformers 5.24 writes them, and keys that change parameters.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/presets.hpp"
#include "tests/catch.hpp"
#include "tests/models/huggingface/configs.hpp"
#include "tests/source_dir.hpp"

using namespace tandem;
using huggingface::ImportedModel;
using nlohmann::json;
using tests::Configs;
using tests::kSmall;
using tests::refused;
using tests::with;
using Names = std::vector<std::string>;

namespace {

json published(const std::string& name) {
  for (const json& f : read_json(tests::source_dir() + "/tests/fixtures/huggingface.json"))
    if (f["name"] == name) return f["config"];
  return {};
}

json renamed(json layers, const json& names) {
  for (json& layer : layers) layer = names.value(layer.get<std::string>(), layer);
  return layers;
}

const json kNewNames = {{"mamba", "linear_attention"}, {"attention", "full_attention"}};

}  // namespace

TEST_CASE("layers are read by their names of transformers 5.24 and by those before") {
  Configs configs;
  const json granite = published("granite-4.0-h-small");
  REQUIRE(granite["layer_types"][0] == "mamba");
  const json saved = with(granite, {{"layer_types", renamed(granite["layer_types"], kNewNames)}});
  CHECK(configs.import(saved).section() == configs.import(granite).section());
  CHECK(configs.import(saved).counts.parameters == 32207337984);  // as transformers builds both
  const json old = with(kSmall, {{"model_type", "nemotron_h"}, {"layers_block_type", {"mamba", "mlp", "attention", "mamba", "moe"}}});
  const json fresh = with(old, {{"layers_block_type", renamed(old["layers_block_type"], kNewNames)}});
  const json letters = with(kSmall, {{"model_type", "nemotron_h"}, {"hybrid_override_pattern", "M-*ME"}});
  CHECK(configs.import(old).section()["recurrence"]["layers"] == "raa");
  for (const json& config : {fresh, letters}) {
    CHECK(configs.import(config).section() == configs.import(old).section());
    CHECK(configs.import(config).counts.parameters == configs.import(old).counts.parameters);
  }
}

TEST_CASE("DeepSeek-V4's lists of layers count what its numbers do") {
  Configs configs;
  const json old = published("deepseek-ai/DeepSeek-V4-Flash");
  json fresh = old;
  for (const char* key : {"compress_ratios", "num_hash_layers"}) fresh.erase(key);
  for (int layer = 0; layer < 43; ++layer) {
    const int ratio = old["compress_ratios"][static_cast<std::size_t>(layer)];
    fresh["layer_types"].push_back(ratio == 4 ? "compressed_sparse_attention" : ratio == 128 ? "heavily_compressed_attention" : "sliding_attention");
    fresh["mlp_layer_types"].push_back(layer < 3 ? "hash_moe" : "moe");
  }
  CHECK(configs.import(fresh).counts.parameters == 284332230231);  // as transformers builds both
  CHECK(refused(configs.import(fresh)) == refused(configs.import(old)));
}

TEST_CASE("a kind of layers that no rule reads is refused by its name") {
  Configs configs;
  const json layers = {"full_attention", "conv"};
  for (const char* type : {"llama", "qwen2", "granitemoehybrid", "qwen3_next"}) {
    INFO(type);
    const ImportedModel model = configs.import(with(kSmall, {{"model_type", type}, {"layer_types", layers}}));
    CHECK(refused(model).back() == "layers of the kind \"conv\"");
    CHECK_FALSE(model.counts.text_complete);
  }
  CHECK(refused(configs.import(with(kSmall, {{"layer_types", {"full_attention", "full_attention"}}}))).empty());
  CHECK(refused(configs.import(with(kSmall, {{"model_type", "nemotron_h"}, {"hybrid_override_pattern", "M-*x"}}))).back() ==
        "layers of the kind \"x\"");
  CHECK(configs.refusal(with(kSmall, {{"model_type", "hy_v3"}, {"num_experts", 4}, {"mlp_layer_types", {"dense", "shared"}}})) ==
        "mlp_layer_types: is no kind of MLP that is known here");
}

TEST_CASE("indices of Llama 4's layers with experts are read as its step is") {
  Configs configs;
  const json step = published("maverick");
  json list = step;
  for (int layer = 1; layer < 48; layer += 2) list["text_config"]["moe_layers"].push_back(layer);
  CHECK(configs.import(list).counts.text_parameters == 400711848960);
  CHECK(configs.import(list).section() == configs.import(step).section());
  CHECK(refused(configs.import(list)).empty());
  const json moe = configs.import(list).section()["moe"];
  CHECK((moe["first_dense_layers"] == 1 && moe["layer_frequency"] == 2));
}

TEST_CASE("Gemma 4's sizes of single layers are read as those of all layers without a window, and refused otherwise") {
  Configs configs;
  const json old = published("gemma4-31b");
  json fresh = old;
  json& text = fresh["text_config"];
  const json sizes = {{"head_dim", text["global_head_dim"]}, {"num_key_value_heads", text["num_global_key_value_heads"]}};
  for (const char* key : {"global_head_dim", "num_global_key_value_heads"}) text.erase(key);
  for (const char* layer : {"05", "11", "17", "23", "29", "35", "41", "47", "53", "59"}) text["per_layer_config"][layer] = sizes;
  CHECK(configs.import(fresh).section() == configs.import(old).section());
  CHECK(configs.import(fresh).counts.text_parameters == 30697345280);
  const auto changed = [&](const char* layer, const json& own) {
    json config = fresh;
    config["text_config"]["per_layer_config"][layer] = own;
    return refused(configs.import(config));
  };
  const Names why = {"sizes of single layers other than heads and key heads of all layers without a window"};
  CHECK(changed("05", {{"head_dim", 256}}) == why);
  CHECK(changed("06", sizes) == why);
  CHECK(changed("99", sizes) == why);
  CHECK(changed("05", {{"intermediate_size", 8}}) == why);
  CHECK(refused(configs.import(with(kSmall, {{"per_layer_config", {{"1", {{"head_dim", 8}}}}}}))) == Names{"sizes of single layers"});
}

// transformers 5.24, ForConditionalGeneration of each on the meta device: whether lm_head is the embedding.
TEST_CASE("the document says whether a model with a tower ties its matrices, and its class where it does not") {
  Configs configs;
  const auto ties = [&](const char* type, const char* inner, const json& outer, const json& said, const char* version = "5.24.0") {
    json text = with(kSmall, {{"model_type", inner}, {"num_key_value_heads", 2}});
    if (!said.is_null()) text["tie_word_embeddings"] = said;
    json config = {{"model_type", type}, {"text_config", text}, {"transformers_version", version}};
    if (!outer.is_null()) config["tie_word_embeddings"] = outer;
    return configs.import(config).section()["tie_embeddings"].get<bool>();
  };
  const json none;
  CHECK(ties("mistral3", "mistral", none, none));           // the outer class' default
  CHECK(ties("mistral3", "mistral", none, false));
  CHECK_FALSE(ties("mistral3", "mistral", false, true));
  CHECK_FALSE(ties("gemma3", "gemma3_text", false, none));
  CHECK_FALSE(ties("qwen3_vl", "qwen3_vl_text", none, true));
  CHECK(ties("qwen3_vl", "qwen3_vl_text", true, false));
  CHECK(ties("qwen2_5_vl", "qwen2_5_vl_text", none, true)); // classes that ask both
  CHECK(ties("llava", "llama", none, true));
  CHECK_FALSE(ties("llava", "llama", none, none));
  CHECK_FALSE(ties("llava_next", "llama", none, true));
  CHECK(ties("glm_ocr", "glm_ocr_text", none, true));
  CHECK(ties("video_llama_3", "qwen2", none, true));
  CHECK(ties("paddleocr_vl", "paddleocr_vl_text", false, none));
  CHECK_FALSE(ties("paddleocr_vl", "paddleocr_vl_text", false, false));
  CHECK(ties("blip-2", "opt", false, none));                // the language model has a class with a head of its own
  CHECK_FALSE(ties("llama4", "llama4_text", true, none));
  CHECK(ties("llama4", "llama4_text", false, true));
  CHECK_FALSE(ties("qwen2_audio", "qwen2", true, true));    // classes that never tie
  CHECK_FALSE(ties("molmo2", "molmo2_text", true, true));
  // Version 4 asked the language model: Mistral Small 3.1 has an output matrix of its own.
  CHECK_FALSE(ties("mistral3", "mistral", none, none, "4.50.0.dev0"));
  CHECK(ties("qwen3_vl", "qwen3_vl_text", none, true, "4.57.1"));
  CHECK(ties("gemma3", "gemma3_text", none, none, "4.50.0"));
}

TEST_CASE("a language model inside a document has no fields of the document") {
  Configs configs;
  const json text = with(kSmall, {{"model_type", "qwen2"}, {"num_key_value_heads", 2}});
  const ImportedModel alone = configs.import(text);
  const ImportedModel inside = configs.import(json{{"model_type", "musicflamingo"}, {"head_dim", 256}, {"hidden_size", 32}, {"text_config", text}});
  CHECK(inside.counts.text_parameters == alone.counts.text_parameters);
  CHECK(inside.section()["head_dim"] == 16);
  const ImportedModel omni = configs.import(json{{"model_type", "qwen2_5_omni"}, {"thinker_config", {{"head_dim", 256}, {"text_config", text}}}});
  CHECK(omni.section() == inside.section());
  CHECK(configs.refusal({{"model_type", "qwen2_5_omni"}, {"thinker_config", {{"text_config", 7}}}}) ==
        "thinker_config.text_config: must be an object, not a whole number");
}

TEST_CASE("factors of scores are said if they are not the root of a head's size") {
  Configs configs;
  const json base = with(kSmall, {{"num_key_value_heads", 2}, {"head_dim", 16}});
  const auto scale = [&](const json& changes) { return configs.import(with(base, changes)).section().value("attention_scale", 0.0); };
  for (const char* type : {"gemma2", "gemma3_text"}) {
    CHECK(scale({{"model_type", type}, {"query_pre_attn_scalar", 144}}) == 1.0 / 12);  // Gemma 2 27B
    CHECK(scale({{"model_type", type}}) == 1.0 / 16);                                 // the class has 256
    CHECK(scale({{"model_type", type}, {"query_pre_attn_scalar", 16}}) == 0);
  }
  CHECK(scale({{"model_type", "gpt2"}}) == 0);
  CHECK(scale({{"model_type", "gpt2"}, {"scale_attn_weights", false}}) == 1);
  CHECK(scale({{"model_type", "granite"}, {"attention_multiplier", 0.0625}}) == 0.0625);
  CHECK(scale({{"model_type", "granite"}, {"attention_multiplier", 0.25}}) == 0);
  CHECK(scale({{"model_type", "granite"}, {"head_dim", 128}, {"attention_multiplier", 0.08838834764}}) == 0);  // the root, rounded
  CHECK(scale({{"model_type", "mpt"}, {"d_model", 64}, {"n_heads", 4}, {"attn_config", {{"softmax_scale", 0.5}}}}) == 0.5);
  const json t5 = {{"model_type", "t5"}, {"d_model", 64}, {"d_kv", 16}, {"num_heads", 4}, {"d_ff", 96}, {"num_layers", 2}};
  CHECK(scale(t5) == 1);
  const auto logits = [&](const json& changes) { return configs.import(with(base, with(t5, changes))).section().value("logit_scale", 1.0); };
  CHECK(logits(json::object()) == 0.125);
  CHECK(logits({{"tie_word_embeddings", false}}) == 1);
  CHECK(logits({{"tie_word_embeddings", true}, {"scale_decoder_outputs", false}}) == 1);
  CHECK(logits({{"model_type", "mt5"}}) == 1);
}

TEST_CASE("MiniCPM's factors come from its depth and width") {
  const json section = Configs().import(with(kSmall, {{"model_type", "minicpm3"}, {"num_hidden_layers", 4}, {"scale_depth", 1.4}, {"dim_model_base", 16},
                                                      {"kv_lora_rank", 16}, {"q_lora_rank", 24}, {"qk_nope_head_dim", 8}, {"qk_rope_head_dim", 4}})).section();
  CHECK(section["residual_scale"] == 0.7);
  CHECK(section["logit_scale"] == 0.25);
  CHECK(section["embedding_scale"] == 12);
}

TEST_CASE("factors of layers, gates and windows that a plan does not say are told or refused by name") {
  Configs configs;
  const json base = with(kSmall, {{"num_key_value_heads", 2}, {"head_dim", 16}});
  const auto names = [&](const json& changes) {
    std::string out;
    for (const huggingface::MissingFeature& f : configs.import(with(base, changes)).features) out += f.name + (f.refused ? " (refused); " : "; ");
    return out;
  };
  CHECK(names({{"model_type", "gpt2"}}).empty());
  CHECK(names({{"model_type", "gpt2"}, {"scale_attn_by_inverse_layer_idx", true}}) == "attention scores divided by the layer's number; ");
  CHECK(names({{"model_type", "mpt"}, {"d_model", 64}, {"n_heads", 4}, {"attn_config", {{"alibi_bias_max", 16}}}}).find("slopes of ALiBi") != std::string::npos);
  const auto stretched = [&](double low, double high) {
    return names({{"rope_parameters", {{"rope_type", "llama3"}, {"rope_theta", 5e5}, {"factor", 8.0}, {"low_freq_factor", low}, {"high_freq_factor", high},
                                       {"original_max_position_embeddings", 32}}}});
  };
  CHECK(stretched(1, 4).empty());
  CHECK(stretched(1, 8) == "other bounds of the stretching of rotary positions; ");
  CHECK(stretched(2, 4) == stretched(1, 8));
  const json hybrid = {{"model_type", "nemotron_h"}, {"hybrid_override_pattern", "M*M*"}, {"mamba_num_heads", 4}, {"mamba_head_dim", 16}, {"n_groups", 1},
                       {"ssm_state_size", 16}};
  CHECK(names(hybrid).find("SiLU") == std::string::npos);
  CHECK(names(with(hybrid, {{"mamba_hidden_act", "gelu"}})).find("an activation of recurrences other than SiLU (refused)") != std::string::npos);
  const json minimax = {{"model_type", "minimax_m2"}, {"num_local_experts", 4}, {"num_experts_per_tok", 2}, {"rope_parameters", {{"rope_theta", 1e6}, {"partial_rotary_factor", 0.5}}}};
  CHECK(configs.import(with(base, minimax)).section()["rotary_fraction"] == 0.5);
  const json t5 = {{"model_type", "t5"}, {"d_model", 64}, {"d_kv", 16}, {"num_heads", 4}, {"d_ff", 96}, {"num_layers", 2}};
  CHECK(names(with(t5, {{"relative_attention_max_distance", 256}})).find("another distance than 128") != std::string::npos);
  CHECK(names(t5).find("another distance than 128") == std::string::npos);
  CHECK(configs.import(with(base, with(t5, {{"feed_forward_proj", "gated-gelu"}, {"dense_act_fn", "silu"}}))).section()["activation"] == "swiglu");
  const json experts = {{"num_local_experts", 4}, {"num_experts", 4}, {"num_experts_per_tok", 2}, {"num_hidden_layers", 2}};
  CHECK(names(with(experts, {{"model_type", "gpt_oss"}, {"swiglu_alpha", 2.0}})) == "a gate with another slope than 1.702; ");
  CHECK(names(with(experts, {{"model_type", "gpt_oss"}})).empty());
  const json sliding = with(experts, {{"model_type", "qwen2_moe"}, {"layer_types", {"sliding_attention", "full_attention"}}});
  CHECK(names(sliding) == "layers whose window has no tokens, as transformers computes them without use_sliding_window (refused); ");
  CHECK(names(with(sliding, {{"use_sliding_window", true}, {"sliding_window", 8}})).empty());
}

TEST_CASE("keys that change parameters are read or refused by name") {
  Configs configs;
  const json base = with(kSmall, {{"num_key_value_heads", 2}});
  const auto named = [&](const json& changes) { return refused(configs.import(with(base, changes))); };
  CHECK(named({{"model_type", "opt"}, {"ffn_dim", 96}, {"layer_norm_elementwise_affine", false}}) == Names{"norms without weights"});
  CHECK(named({{"model_type", "opt"}, {"ffn_dim", 96}, {"_remove_final_layer_norm", true}}) ==
        Names{"layers with norms before them and none behind the last"});
  const json mpt = {{"model_type", "mpt"}, {"n_heads", 4}, {"n_layers", 2}, {"d_model", 64}};
  CHECK(configs.import(with(mpt, {{"tie_word_embeddings", false}})).counts.parameters - configs.import(mpt).counts.parameters == 50368 * 64);
  CHECK(named({{"model_type", "bamba"}, {"mlp_bias", true}, {"attn_layer_indices", {1}}}) == Names{"biases in some linear layers and not in others"});
  const json qwen = {{"model_type", "qwen2_moe"}, {"num_experts", 4}, {"moe_intermediate_size", 32},
                     {"shared_expert_intermediate_size", 64}};
  CHECK(named(with(qwen, {{"qkv_bias", false}})).empty());
  const ImportedModel plain = configs.import(with(base, with(qwen, {{"qkv_bias", false}})));
  CHECK(configs.import(with(base, qwen)).counts.parameters - plain.counts.parameters == 2 * (64 + 2 * 2 * 16));
  const ImportedModel bert = configs.import(json{{"model_type", "bert"}, {"tie_word_embeddings", false}});
  CHECK(refused(bert) == Names{"an encoder with an output matrix of its own"});
  CHECK(bert.counts.parameters == 133577846);  // BertForPreTraining of transformers 5.24
  CHECK(named({{"model_type", "gemma3_text"}, {"use_bidirectional_attention", true}}).back() == "attention to later tokens, too");
  CHECK(named({{"model_type", "hunyuan_v1_dense"}, {"use_cla", true}}) ==
        Names{"layers that share keys and values, which transformers does not build"});
  const json experts = {{"model_type", "hunyuan_v1_moe"}, {"num_experts", 4}};
  CHECK(configs.import(with(base, with(experts, {{"moe_topk", {2, 2}}}))).section()["moe"]["experts_per_token"] == 2);
  CHECK(named(with(experts, {{"moe_topk", {2, 1}}})) == Names{"experts that differ by layer"});
  const json mixed = {{"attention_bias", true}, {"layer_types", {"linear_attention", "full_attention"}}};
  CHECK(named(with(mixed, {{"model_type", "qwen3_5_text"}})) == Names{"biases in some linear layers and not in others"});
  for (const char* type : {"qwen3_next", "qwen3_5_moe_text"})
    CHECK(named(with(mixed, {{"model_type", type}})) == Names{"biases in experts and elsewhere differently"});
}

TEST_CASE("windows behind the first layers are said by letters") {
  Configs configs;
  const json base = with(kSmall, {{"num_key_value_heads", 2}, {"num_hidden_layers", 8}, {"use_sliding_window", true}, {"sliding_window", 32},
                                  {"max_window_layers", 4}});
  for (const char* type : {"qwen2", "qwen3"})
    CHECK(configs.import(with(base, {{"model_type", type}})).section()["window"] == json{{"size", 32}, {"layers", "ffffwwww"}});
  CHECK(configs.import(with(base, {{"model_type", "qwen2"}, {"max_window_layers", 0}})).section()["window"]["layers"] == "w");
  CHECK(!configs.import(with(base, {{"model_type", "qwen2"}, {"max_window_layers", 8}})).section().contains("window"));
}

TEST_CASE("norms of queries and keys behind their rotation are told, and the plan has them before") {
  Configs configs;
  const ImportedModel model = configs.import(with(kSmall, {{"model_type", "hunyuan_v1_dense"}, {"head_dim", 16}}));
  CHECK(refused(model).empty());
  CHECK(model.section()["qk_norm"] == "head");
  CHECK(model.features.front().name == "norms of queries and keys behind their rotation");
}

TEST_CASE("GELU with the error function is told where transformers' class has it, and the tanh form is not") {
  Configs configs;
  const auto told = [&](const json& changes) {
    const ImportedModel model = configs.import(with(kSmall, changes));
    CHECK(refused(model).empty());
    return std::any_of(model.features.begin(), model.features.end(), [](const auto& f) { return f.name == "GELU with the error function"; });
  };
  CHECK(told({{"model_type", "gpt_neox"}, {"hidden_act", "gelu"}}));
  CHECK_FALSE(told({{"model_type", "gpt_neox"}, {"hidden_act", "gelu_new"}}));
  CHECK_FALSE(told({{"model_type", "gemma"}, {"hidden_act", "gelu_pytorch_tanh"}}));
  CHECK(told({{"model_type", "falcon"}}));
  CHECK_FALSE(told({{"model_type", "gpt2"}, {"activation_function", "gelu_new"}}));
  CHECK_FALSE(told({{"model_type", "bloom"}}));  // BloomGelu is the tanh form
  CHECK_FALSE(told({{"model_type", "t5"}, {"feed_forward_proj", "gated-gelu"}}));  // T5Config makes it gelu_new
}

TEST_CASE("Baichuan's positions follow from its size") {
  Configs configs;
  const auto position = [&](std::int64_t hidden) {
    const json section = configs.import({{"model_type", "baichuan"}, {"hidden_size", hidden}, {"model_max_length", 4096}}).section();
    CHECK(section["max_position_embeddings"] == 4096);
    return section.value("position_embedding", "rope");
  };
  CHECK(position(4096) == "rope");
  CHECK(position(5120) == "alibi");
}

TEST_CASE("keys that were read or change nothing are not called unknown") {
  Configs configs;
  const auto unknown = [&](const json& changes) { return configs.import(with(kSmall, changes)).unknown; };
  CHECK(unknown({{"model_type", "granite"}, {"attention_multiplier", 0.01}, {"embedding_multiplier", 12}, {"logits_scaling", 8},
                 {"residual_multiplier", 0.2}}).empty());
  CHECK(unknown({{"model_type", "falcon"}, {"new_decoder_architecture", true}, {"multi_query", true}, {"parallel_attn", true}}) ==
        Names{"intermediate_size"});
  CHECK(unknown({{"model_type", "smollm3"}, {"no_rope_layer_interval", 4}}).empty());
  CHECK(unknown({{"model_type", "phi3"}, {"original_max_position_embeddings", 256}}).empty());
  CHECK(unknown({{"shiny", 1}}) == Names{"shiny"});
}
