#include "models/huggingface/imported_model.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/base/presets.hpp"
#include "models/huggingface/model_type.hpp"
#include "models/plan/plan.hpp"
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

namespace {

const json& fixtures() {
  static const json all = read_json(tests::source_dir() + "/tests/fixtures/huggingface.json");
  return all;
}

}  // namespace

TEST_CASE("published configurations have the parameters that transformers builds them with") {
  Configs configs;
  for (const json& f : fixtures()) {
    INFO(f["name"].get<std::string>());
    const ImportedModel model = configs.import(f["config"]);
    CHECK(model.counts.uncounted.empty() == !f.contains("not_counted"));
    if (!f["parameters"].is_null()) CHECK(model.counts.parameters == f["parameters"].get<std::int64_t>());
  }
}

TEST_CASE("published configurations are read, or refused by the names of what a plan cannot say") {
  Configs configs;
  for (const json& f : fixtures()) {
    INFO(f["name"].get<std::string>());
    CHECK(refused(configs.import(f["config"])) == f["refused"].get<std::vector<std::string>>());
  }
}

TEST_CASE("every model type's table gives a section, or says why no plan comes near it") {
  Configs configs;
  for (const std::string& type : huggingface::known_model_types()) {
    INFO(type);
    const std::string why = configs.refusal({{"model_type", type}});
    const bool said = why.empty() || why.starts_with("model_type: not implemented: ") || why.find("is missing") != std::string::npos;
    CHECK(said);
    CHECK(why.find("is no table") == std::string::npos);
  }
}

TEST_CASE("what changes the modules of a class is refused by name") {
  Configs configs;
  CHECK(refused(configs.import({{"model_type", "gpt2"}, {"add_cross_attention", true}})) == std::vector<std::string>{"layers with cross-attention"});
  CHECK(refused(configs.import({{"model_type", "helium"}, {"head_dim", 64}})).front().starts_with("heads that are not as wide"));
  CHECK(refused(configs.import({{"model_type", "axk1"}})).front() == "a norm behind experts and none behind other MLPs");
  CHECK(refused(configs.import({{"model_type", "afmoe"}, {"route_norm", false}})) == std::vector<std::string>{"a router that transformers does not have"});
}

TEST_CASE("what a file leaves out is its class' default, told as such") {
  Configs configs;
  const ImportedModel model = configs.import(json{{"model_type", "llama"}});
  CHECK(model.counts.parameters == 6738415616);
  for (const huggingface::ImportedField& f : model.fields)
    for (const huggingface::FieldValue& v : f.value.from) CHECK(v.by_default);
}

TEST_CASE("both spellings of rotary positions come to the same section") {
  Configs configs;
  const json four = {{"rope_theta", 5e5}, {"rope_scaling", {{"type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 32}}}};
  const json five = {{"rope_parameters", {{"rope_theta", 5e5}, {"rope_type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 32}}}};
  const json section = configs.import(with(kSmall, four)).section();
  CHECK(section == configs.import(with(kSmall, five)).section());
  CHECK(section["rope_scaling"] == json{{"type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 32}});
  CHECK(section["rope_theta"] == 5e5);
}

TEST_CASE("numbers that Python writes and JSON has not are read as nothing") {
  Configs configs;
  std::string text = with(kSmall, {{"time_step_limit", "LIMIT"}, {"note", "NaN and Infinity"}}).dump();
  text.replace(text.find("\"LIMIT\""), 7, "[0.0, -Infinity, Infinity, NaN]");
  CHECK(configs.import(text).section() == configs.import(kSmall).section());
}

TEST_CASE("windows of attention are said by their size and the layers that have them") {
  Configs configs;
  const json base = with(kSmall, {{"num_key_value_heads", 2}});
  const auto window = [&](const json& changes) { return configs.import(with(base, changes)).section().value("window", json()); };
  CHECK(window({{"model_type", "mistral"}, {"sliding_window", 128}}) == json{{"size", 128}, {"layers", "w"}});
  CHECK(window({{"model_type", "mistral"}, {"sliding_window", nullptr}}).is_null());
  const json layers = {"sliding_attention", "full_attention", "sliding_attention", "full_attention"};
  const json oss = {{"model_type", "gpt_oss"}, {"num_hidden_layers", 4}, {"sliding_window", 16}, {"layer_types", layers},
                    {"num_local_experts", 4}, {"num_experts_per_tok", 2}};
  CHECK(window(oss) == json{{"size", 16}, {"layers", "wf"}});
  CHECK(window(with(oss, {{"layer_types", {"full_attention", "sliding_attention", "sliding_attention", "full_attention"}}})) ==
        json{{"size", 16}, {"layers", "fww"}});  // again from the first
  const json section = configs.import(with(base, oss)).section();
  CHECK(section["attention_sinks"] == true);
  CHECK(section["activation"] == "clamped_swiglu");
  CHECK(section["moe"]["router_bias"] == true);
}

TEST_CASE("heads, sinks and values of layers with a window are said apart, as MiMo-V2-Flash and Gemma 4 have them") {
  Configs configs;
  const json mimo = {{"model_type", "mimo_v2_flash"}, {"num_hidden_layers", 3}, {"num_key_value_heads", 1}, {"head_dim", 24},
                     {"v_head_dim", 16}, {"swa_num_attention_heads", 4}, {"swa_num_key_value_heads", 2}, {"swa_head_dim", 24},
                     {"swa_v_head_dim", 8}, {"sliding_window", 16}, {"swa_rope_theta", 100}, {"hybrid_layer_pattern", {0, 1, 0}},
                     {"moe_layer_freq", {0, 1, 1}}, {"n_routed_experts", 4}, {"num_experts_per_tok", 2}, {"layernorm_epsilon", 1e-5},
                     {"add_swa_attention_sink_bias", true}, {"add_full_attention_sink_bias", false}};
  const json section = configs.import(with(kSmall, mimo)).section();
  CHECK(section["window"] == json{{"size", 16}, {"layers", "fw"}, {"rope_theta", 100}, {"full_sinks", false}, {"num_kv_heads", 2}, {"value_dim", 8}});
  CHECK(section["attention_sinks"] == true);
  CHECK(section["value_dim"] == 16);
  CHECK(refused(configs.import(with(with(kSmall, mimo), {{"add_swa_attention_sink_bias", false}, {"add_full_attention_sink_bias", true}}))) ==
        std::vector<std::string>{"attention sinks in layers without a window alone"});
  const json gemma = {{"model_type", "gemma4_text"}, {"num_hidden_layers", 2}, {"num_key_value_heads", 4}, {"head_dim", 8},
                      {"num_global_key_value_heads", 2}, {"global_head_dim", 16}, {"attention_k_eq_v", true}, {"sliding_window", 16},
                      {"layer_types", {"sliding_attention", "full_attention"}}, {"hidden_size_per_layer_input", 0},
                      {"enable_moe_block", true}, {"num_experts", 4}, {"top_k_experts", 2}, {"moe_intermediate_size", 40}};
  const json read = configs.import(with(kSmall, gemma)).section();
  CHECK(read["num_kv_heads"] == 2);
  CHECK(read["head_dim"] == 16);
  CHECK(read["tie_kv"] == true);
  CHECK(read["value_norm"] == true);
  CHECK(read["norm_placement"] == "sandwich");
  CHECK(read["window"]["num_kv_heads"] == 4);
  CHECK(read["window"]["head_dim"] == 8);
  CHECK(read["window"]["own_values"] == true);
  CHECK(read["moe"]["num_shared_experts"] == 2);
  CHECK(read["moe"]["shared_ffn_hidden_size"] == 96);
  for (const char* key : {"branch_norms", "router_norm", "expert_scale"}) CHECK(read["moe"][key] == true);
}

TEST_CASE("norms of rows, norms behind, soft caps, gates and output biases are said") {
  Configs configs;
  const json base = with(kSmall, {{"num_key_value_heads", 2}, {"head_dim", 16}});
  const auto section = [&](const json& changes) { return configs.import(with(base, changes)).section(); };
  const json olmo = section({{"model_type", "olmo2"}});
  CHECK(olmo["qk_norm"] == "full");
  CHECK(olmo["norm_placement"] == "behind");
  CHECK(section({{"model_type", "minimax_m2"}, {"num_local_experts", 4}})["qk_norm"] == "full");
  CHECK(section({{"model_type", "exaone4"}})["qk_norm"] == "head");
  const json gemma = section({{"model_type", "gemma2"}, {"attn_logit_softcapping", 20.0}, {"final_logit_softcapping", 10.0}});
  CHECK(gemma["attention_soft_cap"] == 20.0);
  CHECK(gemma["logit_soft_cap"] == 10.0);
  CHECK(gemma["embedding_scale"] == 8.0);  // the root of 64
  CHECK_FALSE(olmo.contains("embedding_scale"));
  const json granite = section({{"model_type", "granite"}, {"embedding_multiplier", 12}, {"residual_multiplier", 0.22}, {"logits_scaling", 8},
                                {"attention_multiplier", 0.015625}});
  CHECK(granite["embedding_scale"] == 12);
  CHECK(granite["residual_scale"] == 0.22);
  CHECK(granite["logit_scale"] == 0.125);
  CHECK(granite["attention_scale"] == 0.015625);
  for (const char* key : {"residual_scale", "logit_scale", "attention_scale"}) CHECK_FALSE(olmo.contains(key));
  CHECK(section({{"model_type", "hyperclovax"}, {"logits_scaling", 0.125}})["logit_scale"] == 0.125);  // it multiplies
  CHECK_FALSE(section({{"model_type", "gemma3_text"}}).contains("attention_soft_cap"));
  const json qwen = section({{"model_type", "qwen2_moe"}, {"num_experts", 4}, {"moe_intermediate_size", 32},
                             {"shared_expert_intermediate_size", 64}});
  CHECK(qwen["moe"]["shared_gate"] == true);
  CHECK(qwen["moe"]["num_shared_experts"] == 2);
  CHECK(section({{"model_type", "phi"}, {"num_key_value_heads", 4}})["output_bias"] == true);
  const json llama = section({{"model_type", "llama4_text"}, {"intermediate_size_mlp", 96}, {"num_local_experts", 4}, {"num_experts_per_tok", 1}});
  CHECK(llama["qk_norm"] == "l2");
  CHECK(llama["moe"]["weigh_inputs"] == true);
  CHECK(llama["moe"]["router_scores"] == "sigmoid");
}

TEST_CASE("layers in chunks have positions and the others none, as Llama 4 has it") {
  Configs configs;
  const json llama4 = {{"model_type", "llama4_text"}, {"num_hidden_layers", 8}, {"num_key_value_heads", 2}, {"attention_chunk_size", 32},
                       {"intermediate_size_mlp", 96}, {"num_local_experts", 4}, {"num_experts_per_tok", 1}, {"interleave_moe_layer_step", 1}};
  CHECK(configs.import(with(kSmall, llama4)).section()["window"] ==
        json{{"size", 32}, {"chunked", true}, {"layers", "wwwf"}, {"full_rotary", false}});
}

TEST_CASE("layers without rotary positions need no window, as SmolLM3 has them") {
  Configs configs;
  const auto read = [&](const json& changes) {
    return configs.import(with(kSmall, with({{"model_type", "smollm3"}, {"num_hidden_layers", 8}, {"num_key_value_heads", 2}}, changes)));
  };
  CHECK(read(json::object()).section()["window"] == json{{"layers", "wwwf"}, {"full_rotary", false}});
  CHECK(read({{"no_rope_layers", {1, 0, 1, 0, 1, 0, 1, 0}}}).section()["window"]["layers"] == "wf");
  CHECK(read({{"no_rope_layers", {1, 0, 1, 0, 1, 0, 1, 0}}}).features.empty());
  const ImportedModel none = read({{"no_rope_layers", {0, 0, 0, 0, 0, 0, 0, 0}}}), all = read({{"no_rope_layers", {1, 1, 1, 1, 1, 1, 1, 1}}});
  CHECK(none.section()["position_embedding"] == "none");
  CHECK_FALSE(none.section().contains("window"));
  CHECK(all.section()["position_embedding"] == "rope");
  CHECK_FALSE(all.section().contains("window"));
  const ImportedModel both = read({{"use_sliding_window", true}, {"sliding_window", 16}});
  REQUIRE(both.features.size() == 1);
  CHECK(both.features.front().name == "layers without rotary positions beside windows");
}

TEST_CASE("windows of GPT-Neo are those of its list of attention_types") {
  Configs configs;
  const auto read = [&](const json& types) {
    const json neo = {{"model_type", "gpt_neo"}, {"hidden_size", 64}, {"num_layers", 4}, {"num_heads", 4}, {"vocab_size", 128}, {"window_size", 16}};
    return configs.import(types.is_null() ? neo : with(neo, {{"attention_types", types}}));
  };
  const auto layers = [&](const char* types) { return read(json::parse(types)).section()["window"]["layers"]; };
  CHECK(layers("null") == "fw");
  CHECK(layers(R"([[["global", "local"], 2]])") == "fw");
  CHECK(layers(R"([[["local", "local", "global", "global"], 1]])") == "wwff");
  CHECK(layers(R"([[["local"], 4]])") == "w");
  CHECK_FALSE(read(json::parse(R"([[["global"], 4]])")).section().contains("window"));
  for (const char* other : {R"([[["global"], 2], [["local"], 2]])", R"([[["global", "local"], 3]])", R"([[["global", "sparse"], 2]])"}) {
    CAPTURE(other);
    const auto features = read(json::parse(other)).features;
    REQUIRE(features.size() == 1);
    CHECK(features.front().refused);
  }
}

TEST_CASE("queries of Ministral 3 are scaled by their position only beyond the original length, and keep theirs") {
  Configs configs;
  const json rope = {{"rope_type", "yarn"}, {"rope_theta", 10000.0}, {"factor", 16.0}, {"original_max_position_embeddings", 64}, {"mscale", 1.0},
                     {"mscale_all_dim", 1.0}, {"llama_4_scaling_beta", 0.1}};
  const json model = with(kSmall, {{"model_type", "ministral3"}, {"num_key_value_heads", 2}, {"max_position_embeddings", 1024}, {"rope_parameters", rope}});
  CHECK(configs.import(model, 64).features.empty());
  CHECK(configs.import(model, 64).section()["rope_scaling"]["mscale_all_dim"] == 1);
  const auto longer = configs.import(model, 65).features;
  REQUIRE(longer.size() == 1);
  CHECK(longer.front().name == "queries that are scaled by their position");
}

TEST_CASE("routers are read as transformers computes them") {
  Configs configs;
  const auto moe = [&](const json& changes) {
    return configs.import(with(with(kSmall, {{"num_key_value_heads", 2}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 32}}), changes))
        .section()["moe"];
  };
  const json glm = {{"model_type", "glm4_moe"}, {"n_routed_experts", 8}, {"first_k_dense_replace", 1}, {"routed_scaling_factor", 2.5},
                    {"n_group", 4}, {"topk_group", 2}};
  const json read = moe(glm);
  CHECK(read["router_scores"] == "sigmoid");
  CHECK(read["weight_scale"] == 2.5);
  CHECK(read["expert_groups"] == 4);
  CHECK(read["groups_per_token"] == 2);
  CHECK(read["group_score"] == "top2");
  CHECK(read["balance_rate"] == 0.001);
  CHECK(!read.contains("normalize_weights"));
  CHECK(moe(with(glm, {{"norm_topk_prob", false}}))["normalize_weights"] == false);
  CHECK(!moe(with(glm, {{"n_group", 1}, {"topk_group", 1}})).contains("expert_groups"));
  const json qwen = {{"model_type", "qwen3_moe"}, {"num_experts", 8}};
  CHECK(moe(qwen)["normalize_weights"] == false);  // the class' default
  CHECK(!moe(with(qwen, {{"norm_topk_prob", true}})).contains("normalize_weights"));
  for (const char* key : {"router_scores", "weight_scale", "balance_rate"}) CHECK(!moe(qwen).contains(key));
}

TEST_CASE("modules of multi-token prediction are read where they are DeepSeek-V3's, and counted apart") {
  Configs configs;
  const json base = with(kSmall, {{"num_key_value_heads", 2}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 32}, {"num_local_experts", 8}});
  const json glm = with(base, {{"model_type", "glm4_moe"}, {"first_k_dense_replace", 1}});
  const ImportedModel without = configs.import(glm), read = configs.import(with(glm, {{"num_nextn_predict_layers", 2}}));
  CHECK(without.counts.mtp_parameters == 0);
  CHECK(!without.section().contains("mtp"));
  CHECK(read.section()["mtp"] == json{{"num_layers", 2}});
  CHECK(read.counts.parameters == without.counts.parameters);
  CHECK(read.counts.mtp_parameters > 2 * (2 * 64 * 64 + 8 * 3 * 64 * 32));
  const json minimax = with(base, {{"model_type", "minimax_m2"}, {"use_mtp", true}, {"num_mtp_modules", 3}});
  CHECK(configs.import(minimax).section()["mtp"]["num_layers"] == 3);
  CHECK(refused(configs.import(with(minimax, {{"mtp_transformer_layers", 2}}))) == std::vector<std::string>{"multi-token prediction"});
  CHECK(refused(configs.import(with(base, {{"model_type", "dots1"}, {"num_nextn_predict_layers", 1}}))) ==
        std::vector<std::string>{"multi-token prediction"});
}

TEST_CASE("an indexer is read where every layer has one, with modules of multi-token prediction") {
  Configs configs;
  const json base = with(kSmall, {{"q_lora_rank", 16}, {"kv_lora_rank", 8}, {"qk_nope_head_dim", 16}, {"qk_rope_head_dim", 8}, {"v_head_dim", 24},
                                  {"n_routed_experts", 8}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 32}, {"first_k_dense_replace", 1},
                                  {"n_group", 1}, {"topk_group", 1}, {"index_n_heads", 2}, {"index_head_dim", 12}, {"index_topk", 10},
                                  {"num_nextn_predict_layers", 1}});
  const std::int64_t each = 16 * 2 * 12 + 64 * 12 + 2 * 12 + 64 * 2;
  for (const char* type : {"deepseek_v32", "glm_moe_dsa"}) {
    INFO(type);
    const ImportedModel read = configs.import(with(base, {{"model_type", type}})), plain = configs.import(with(base, {{"model_type", "deepseek_v3"}}));
    CHECK(refused(read).empty());
    CHECK(read.section()["indexer"] == json{{"heads", 2}, {"head_dim", 12}, {"topk", 10}});
    CHECK(read.section()["mtp"] == json{{"num_layers", 1}});
    CHECK(read.counts.parameters - plain.counts.parameters == 2 * each);
    CHECK(read.counts.mtp_parameters - plain.counts.mtp_parameters == each);
  }
  const json shared = with(base, {{"model_type", "glm_moe_dsa"}, {"indexer_types", {"full", "shared"}}});
  CHECK(refused(configs.import(shared)) == std::vector<std::string>{"layers that see the keys that an earlier layer chose"});
}

TEST_CASE("an index of blocks is read with the layers that have it, in both spellings") {
  Configs configs;
  const json sizes = with(kSmall, {{"model_type", "minimax_m3"}, {"num_hidden_layers", 4}, {"num_key_value_heads", 2}, {"head_dim", 16},
                                   {"dense_intermediate_size", 96}, {"intermediate_size", 32}, {"num_local_experts", 8}, {"num_experts_per_tok", 2},
                                   {"shared_intermediate_size", 32}, {"rotary_dim", 8}});
  const json sparse = {{"use_sparse_attention", true}, {"sparse_num_index_heads", 2}, {"sparse_index_dim", 12}, {"sparse_block_size", 8},
                       {"sparse_topk_blocks", 3}, {"sparse_local_block", 1}, {"sparse_init_block", 0}, {"sparse_score_type", "max"},
                       {"sparse_attention_freq", {0, 1, 1, 1}}, {"sparse_disable_index_value", {0, 1, 1, 1}}};
  const json said = with(sizes, {{"hidden_act", "swigluoai"}, {"swiglu_alpha", 1.702}, {"swiglu_limit", 7.0}, {"moe_layer_freq", {0, 1, 1, 1}},
                                 {"sparse_attention_config", sparse}, {"num_nextn_predict_layers", 1}});
  const json plain = with(said, {{"sparse_attention_config", {{"use_sparse_attention", false}}}});
  const ImportedModel read = configs.import(said, 200), dense = configs.import(plain, 200);
  CHECK(refused(read).empty());
  CHECK(read.section()["indexer"] == json{{"heads", 2}, {"head_dim", 12}, {"topk", 24}, {"block_size", 8}, {"layers", "fiii"}});
  CHECK(read.section()["activation"] == "clamped_swiglu");
  CHECK(read.section()["mtp"] == json{{"num_layers", 1}});
  CHECK(!dense.section().contains("indexer"));
  const std::int64_t each = 64 * 2 * 12 + 64 * 12 + 2 * 12;
  CHECK(read.counts.parameters - dense.counts.parameters == 3 * each);
  CHECK(read.counts.mtp_parameters - dense.counts.mtp_parameters == each);
  // What transformers writes: its own names for the same.
  const json flat = with(sizes, {{"model_type", "minimax_m3_vl_text"}, {"hidden_act", "silu"}, {"index_n_heads", 2}, {"index_head_dim", 12},
                                 {"index_block_size", 8}, {"index_topk_blocks", 3}, {"index_local_blocks", 1}, {"num_nextn_predict_layers", 1},
                                 {"mlp_layer_types", {"dense", "sparse", "sparse", "sparse"}},
                                 {"layer_types", {"full_attention", "minimax_m3_sparse", "minimax_m3_sparse", "minimax_m3_sparse"}}});
  CHECK(configs.import(flat).section() == configs.import(said).section());
  // A query sees its own block of 8 up to itself and two others; 3 layers and a module, 4 heads of 16, 2 index heads of 12 that score all keys.
  double fewer = 0, all = 0;
  for (int q = 0; q < 200; ++q) fewer += q + 1 - (q % 8 + 1 + 8 * std::min(2, q / 8)), all += q + 1;
  CHECK(dense.counts.forward_flops - read.counts.forward_flops ==
        Approx(4 * (4 * 64 * fewer / 200 - 2.0 * 64 * 3 * 12 - 2 * 2 * 12 * all / 200)));
}

TEST_CASE("what a plan cannot say of an index of blocks is refused by name") {
  Configs configs;
  const json base = {{"model_type", "minimax_m3"}, {"num_hidden_layers", 4}, {"moe_layer_freq", {0, 1, 1, 1}},
                     {"sparse_attention_config", {{"sparse_attention_freq", {0, 1, 1, 1}}}}};
  const auto changed = [&](const char* key, const json& value) {
    json config = base;
    config["sparse_attention_config"][key] = value;
    return refused(configs.import(config));
  };
  using Names = std::vector<std::string>;
  CHECK(refused(configs.import(base)).empty());
  CHECK(changed("sparse_score_type", "mean") == Names{"blocks with other scores than the largest of their keys'"});
  CHECK(changed("sparse_local_block", 0) == Names{"an index that may leave out a query's own block"});
  CHECK(changed("sparse_num_index_heads", 8) == Names{"index heads that choose for several key heads, or for parts of one"});
  CHECK(changed("sparse_disable_index_value", json{0, 0, 1, 1}) == Names{"an index with values of its own"});
  CHECK(changed("sparse_init_block", 1).empty());  // told
  CHECK(refused(configs.import(with(base, {{"swiglu_alpha", 1.5}}))) == Names{"a clamped gate with another slope or bound than gpt-oss'"});
  CHECK(refused(configs.import(with(base, {{"attention_output_gate", true}}))) == Names{"an output gate of attention"});
}

TEST_CASE("a window's FLOPs are those of the keys that it lets through") {
  Configs configs;
  const json plain = with(kSmall, {{"model_type", "mistral"}, {"sliding_window", nullptr}, {"num_key_value_heads", 2}});
  const double all = configs.import(plain, 200).counts.forward_flops;
  const double some = configs.import(with(plain, {{"sliding_window", 10}}), 200).counts.forward_flops;
  double keys = 0;
  for (int i = 1; i <= 200; ++i) keys += i - std::min(i, 10);
  CHECK(all - some == Approx(2 * 4 * 64 * keys / 200));  // 2 layers, scores and context, 4 heads of 16
}

TEST_CASE("experts in every second layer are said by the frequency, whichever layer is the first") {
  Configs configs;
  const json base = with(kSmall, {{"model_type", "qwen2_moe"}, {"num_hidden_layers", 6}, {"num_experts", 4}, {"moe_intermediate_size", 32},
                                  {"shared_expert_intermediate_size", 64}, {"num_key_value_heads", 4}});
  const auto irregular = [&](const json& changes) {
    const ImportedModel model = configs.import(with(base, changes));
    const std::vector<std::string> names = refused(model);
    return std::count(names.begin(), names.end(), "experts in layers at irregular places");
  };
  CHECK(irregular({{"decoder_sparse_step", 1}}) == 0);
  CHECK(irregular({{"decoder_sparse_step", 2}}) == 0);  // layers 1, 3, 5
  CHECK(irregular({{"mlp_only_layers", {0, 1}}}) == 0);
  CHECK(irregular({{"mlp_only_layers", {1}}}) == 1);
  const json section = configs.import(with(base, {{"mlp_only_layers", {0, 1}}})).section();
  CHECK(section["moe"]["first_dense_layers"] == 2);
  CHECK(section["moe"]["num_shared_experts"] == 2);
}

TEST_CASE("an unknown model type is refused with the nearest that is known") {
  Configs configs;
  CHECK(configs.refusal({{"model_type", "lama"}}) == "model_type: is no model type that is known here");
  CHECK(configs.refusal({{"hidden_size", 64}}) == "model_type: is missing");
  CHECK(configs.refusal({{"model_type", 3}}) == "model_type: must be a string, not a whole number");
  CHECK(configs.refusal({{"model_type", "Decoder"}}) == "model_type: is no model type that is known here");
  CHECK(configs.refusal({{"model_type", "llava"}, {"text_config", {{"model_type", "lama"}}}}) ==
        "text_config.model_type: is no model type that is known here");
  CHECK(configs.refusal({{"model_type", "llava"}, {"text_config", 3}}) == "text_config: must be an object, not a whole number");
}

TEST_CASE("wrong values are refused by their field") {
  Configs configs;
  CHECK(configs.refusal(with(kSmall, {{"num_hidden_layers", "many"}})).starts_with("num_hidden_layers: must"));
  CHECK(configs.refusal(with(kSmall, {{"num_attention_heads", 0}})).starts_with("hidden_size and num_attention_heads: must not be 0"));
  CHECK(configs.refusal(with(kSmall, {{"num_hidden_layers", 1'000'000}})) == "num_hidden_layers: is too large");
  CHECK(configs.refusal(with(kSmall, {{"hidden_size", nullptr}})).find("hidden_size") == 0);
  CHECK(configs.refusal(with(kSmall, {{"intermediate_size", 4e18}})).find("intermediate_size") != std::string::npos);
}

TEST_CASE("a plan takes a configuration in place of a preset, and refuses what it cannot say by name") {
  Configs configs;
  for (const char* folder : {"m", "q"}) std::filesystem::create_directory(configs.path() / folder);
  configs.file("m/config.json", kSmall.dump());
  configs.file("q/config.json", with(kSmall, {{"model_type", "persimmon"}, {"qk_layernorm", true}}).dump());
  const auto plan = [&](const std::string& preset) {
    const json document = {{"model", {{"preset", preset}, {"vocab_size", 512}}},
                           {"training", {{"seq_length", 64}, {"micro_batch_size", 1}, {"global_batch_size", 1}}},
                           {"cluster", {{"preset", "cpu-host"}, {"devices", 1}}}};
    return parse_plan(document.dump(), configs.at("plan.json"), PlanContext{[](const std::string&) { return std::string("cpu"); }});
  };
  const Plan read = plan("m/config.json");
  CHECK(read.model.ffn_hidden_size == 96);
  CHECK(read.model.vocab_size == 512);
  CHECK(read.model.normalization == Normalization::rmsnorm);
  try {
    plan("q/config.json");
    FAIL("QK norm was passed over");
  } catch (const InfeasibleError& e) {
    CHECK(e.problems().front().reason == "not implemented: norms of queries and keys (QK norm) other than RMS norms of heads or rows");
    CHECK(e.problems().front().file == configs.at("q/config.json"));
  }
  CHECK_THROWS_AS(plan("gone/config.json"), ConfigError);
  configs.file("q/config.json", with(kSmall, {{"model_type", "mistral"}, {"sliding_window", 63}, {"num_key_value_heads", 2}}).dump());
  CHECK(plan("q/config.json").model.window.size == 63);
}

TEST_CASE("a plan refuses a configuration whose model has other parameters than the plan's") {
  Configs configs;
  for (const char* folder : {"own/models/huggingface/types", "m"}) std::filesystem::create_directories(configs.path() / folder);
  const auto extra = [&](const char* parameters) {  // a type like LLaMA whose table counts a part that no plan has
    configs.file("own/models/huggingface/types/odd.json",
                 json{{"like", "llama"}, {"source", {"this test"}}, {"weights", {{"extra", {{"parameters", parameters}}}}}}.dump());
  };
  extra("7");
  configs.file("m/config.json", with(kSmall, {{"model_type", "odd"}}).dump());
  setenv("TANDEM_PRESETS", configs.at("own").c_str(), 1);
  const auto refusal = [&](const json& overrides) {
    json document = {{"model", {{"preset", "m/config.json"}}},
                     {"training", {{"seq_length", 64}, {"micro_batch_size", 1}, {"global_batch_size", 1}}},
                     {"cluster", {{"preset", "cpu-host"}, {"devices", 1}}}};
    document["model"].update(overrides);
    try {
      parse_plan(document.dump(), configs.at("plan.json"), PlanContext{[](const std::string&) { return std::string("cpu"); }});
    } catch (const InfeasibleError& e) {
      return e.problems().front();
    }
    return Problem{};
  };
  const std::int64_t counted = huggingface::import_model(configs.at("m/config.json")).counts.text_parameters;
  const Problem odd = refusal(json::object());
  CHECK(odd.file == configs.at("m/config.json"));
  CHECK(odd.field == "model_type");
  CHECK(odd.reason ==
        "not implemented: a plan of " + std::to_string(counted - 7) + " parameters for a model of " + std::to_string(counted));
  CHECK(refusal({{"num_layers", 1}}).reason == odd.reason);  // of the file's model, whatever the plan makes of it
  extra("0");
  CHECK(refusal(json::object()).reason.empty());
  CHECK(refusal({{"num_layers", 1}}).reason.empty());
  unsetenv("TANDEM_PRESETS");
}

TEST_CASE("a plan takes a preset file of one's own by its path") {
  Configs configs;
  configs.file("mine.json", json{{"model", {{"preset", "gpt2-124m"}}}}.dump());
  configs.file("own.json", json{{"model", {{"num_layers", 2}, {"hidden_size", 32}, {"num_attention_heads", 2}, {"vocab_size", 64}}}}.dump());
  const auto plan = [&](const std::string& preset) {
    const json document = {{"model", {{"preset", preset}}},
                           {"training", {{"seq_length", 64}, {"micro_batch_size", 1}, {"global_batch_size", 1}}},
                           {"cluster", {{"preset", "cpu-host"}, {"devices", 1}}}};
    return parse_plan(document.dump(), configs.at("plan.json"), PlanContext{[](const std::string&) { return std::string("cpu"); }});
  };
  CHECK(plan("own.json").model.hidden_size == 32);
  CHECK_THROWS_AS(plan("mine.json"), ConfigError);  // a preset cannot name another preset
}

// state-spaces/mamba2-2.7b. A layer by hand: norm 2,560; in 2,560 x (5,120 + 5,376 + 80); convolution 5 x 5,376; decay, step and skip of
// 80 heads; gated norm 5,120; out 5,120 x 2,560. The embedding of 50,288 rows is also the head.
TEST_CASE("a model of Mamba 2 layers alone is read") {
  Configs configs;
  const ImportedModel model = configs.import(json{{"model_type", "mamba2"}, {"hidden_size", 2560}, {"num_heads", 80}, {"n_groups", 1},
                                                  {"num_hidden_layers", 64}, {"vocab_size", 50288}, {"tie_word_embeddings", true}});
  CHECK(refused(model).empty());
  CHECK(model.counts.parameters == 2'702'599'680);
  const json plan = {{"model", model.section()}, {"parallel", json::object()}, {"training", {{"seq_length", 2048}, {"micro_batch_size", 1}, {"global_batch_size", 1}}},
                     {"cluster", {{"preset", "dgx-h100"}, {"devices", 1}}}};
  const ModelSpec spec = parse_plan(plan.dump(), "mamba2.json", {}).model;
  CHECK(count_parameters(spec, spec.vocab_size).total == 2'702'599'680);
}

// huggingface/transformers 5.24.0: models/mpt/modeling_mpt.py, MptMLP has 4 * hidden_size whatever expansion_ratio is.
TEST_CASE("an MPT of another width than transformers builds is refused") {
  Configs configs;
  CHECK(refused(configs.import(json{{"model_type", "mpt"}})).empty());
  CHECK(refused(configs.import(json{{"model_type", "mpt"}, {"expansion_ratio", 4}})).empty());
  const auto named = refused(configs.import(json{{"model_type", "mpt"}, {"expansion_ratio", 3}}));
  REQUIRE(named.size() == 1);
  CHECK(named.begin()->starts_with("an MLP of expansion_ratio x d_model"));
}

TEST_CASE("a model of layers that a plan lacks is refused with what is missing") {
  Configs configs;
  for (const auto& [type, missing] : std::vector<std::pair<std::string, std::string>>{
           {"zaya", "compressed convolutional attention"}, {"qwen4_exp", "embeddings of n-grams"}, {"lfm2_vl", "short gated convolutions"}}) {
    const std::string said = configs.refusal(json{{"model_type", type}, {"text_config", json::object()}});
    CAPTURE(said);
    CHECK(said.find(missing) != std::string::npos);
  }
}
