// Names and rows of weights in files of transformers. Losses beside transformers': tests/tandem/commands/weights_test.py.
#include <nlohmann/json.hpp>
#include <set>

#include "models/base/error.hpp"
#include "models/huggingface/adapter_rows.hpp"
#include "models/huggingface/model_type.hpp"
#include "models/huggingface/tensor_rows.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::huggingface;

namespace {

using RowNumbers = std::vector<std::vector<std::int64_t>>;

/// A model with four heads of 3, two key heads with values of 2, and three experts.
ModelSpec small_model() {
  ModelSpec model;
  model.num_layers = 2;
  model.num_attention_heads = 4;
  model.num_kv_heads = 2;
  model.head_dim = 3;
  model.value_dim = 2;
  model.rotary_fraction = 0.7;  // two of three dimensions
  model.moe.num_experts = 3;
  return model;
}

/// The same with latent attention: compressed rows of 8, 2 of a head's 3 dimensions rotate.
ModelSpec latent_model(std::int64_t query_rank = 6) {
  ModelSpec model = small_model();
  model.num_kv_heads = 4;
  model.latent = {8, query_rank, 2};
  return model;
}

/// The same as an encoder with a decoder of as many layers.
ModelSpec model_with_decoder() {
  ModelSpec model = small_model();
  model.num_decoder_layers = 2;
  return model;
}

WholeParameter parameter_of(std::string key) {
  if (key.starts_with("layer.")) key.insert(5, "1");
  if (key.starts_with("decoder_layer.")) key.replace(0, 13, "layer3");
  const bool of_groups = key.find("qkv") != std::string::npos, vector = key.ends_with(".bias") || key.find("norm.") != std::string::npos;
  return {key, of_groups ? std::int64_t{2} * (6 + 3 + 2) : std::int64_t{24}, vector ? 1 : 5};
}

/// The parameter's row at each row of each tensor.
RowNumbers rows_of(const ParameterRows& p) {
  RowNumbers out;
  for (const FileTensor& t : p.tensors) {
    std::int64_t numbers = 1;
    for (const std::int64_t n : t.shape) numbers *= n;
    out.emplace_back(static_cast<std::size_t>(numbers / p.parameter.cols), -1);
  }
  for (const RowRun& run : p.runs)
    for (std::int64_t i = 0; i < run.count; ++i) {
      std::int64_t& row = out.at(run.tensor).at(static_cast<std::size_t>(run.in_tensor + i));
      CHECK(row == -1);  // no row of a tensor is used twice
      row = run.row + i * run.step;
    }
  return out;
}

ParameterRows rows_in(const std::string& type, const std::string& name, std::int64_t rows, std::int64_t cols) {
  return rows_in_files(weight_table(type), small_model(), {{name, rows, cols}}).front();
}

}  // namespace

TEST_CASE("every table of weights names a known type, and has each row of a parameter and of its tensors once") {
  const std::vector<std::string> types = types_with_weights(), known = known_model_types();
  REQUIRE(types.size() >= 12);
  for (const std::string& type : types) {
    INFO(type);
    CHECK(std::find(known.begin(), known.end(), type) != known.end());
    const WeightTable table = weight_table(type);
    for (const auto& [key, rule] : table.parameters) {
      INFO(key);
      const WholeParameter p = parameter_of(key);
      std::set<std::int64_t> seen;
      if (rule.rows == TensorRule::Rows::plain && key.find("qkv") != std::string::npos) continue;
      if (rule.rows > TensorRule::Rows::groups && rule.rows != TensorRule::Rows::halves) continue;  // below
      const ModelSpec model = key.starts_with("decoder_layer.") ? model_with_decoder() : small_model();
      const ParameterRows rows = rows_in_files(table, model, {p}).front();
      for (const auto& tensor : rows_of(rows)) seen.insert(tensor.begin(), tensor.end());
      CHECK(seen.size() == static_cast<std::size_t>(p.rows));
      CHECK((*seen.begin() == 0 && *seen.rbegin() == p.rows - 1));
    }
  }
}

TEST_CASE("rows of queries, keys and values are those of their groups") {
  const ParameterRows apart = rows_in("llama", "layer1.qkv.weight", 22, 5);
  CHECK(apart.tensors[1].name == "model.layers.1.self_attn.k_proj.weight");
  CHECK(apart.tensors[0].shape == std::vector<std::int64_t>{12, 5});
  CHECK(rows_of(apart) == RowNumbers{{0, 1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 16}, {6, 7, 8, 17, 18, 19}, {9, 10, 20, 21}});
  const ParameterRows below = rows_in("gpt2", "layer0.qkv.weight", 22, 5);
  CHECK(below.transposed);
  CHECK(below.tensors.front().shape == std::vector<std::int64_t>{5, 22});
  CHECK(rows_of(below) == RowNumbers{{0, 1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 16, 6, 7, 8, 17, 18, 19, 9, 10, 20, 21}});
}

TEST_CASE("OPT has two rows above its first position, which are the parameter's last") {
  const ParameterRows rows = rows_in("opt", "embedding.position.weight", 6, 5);
  CHECK(rows.tensors.front().shape == std::vector<std::int64_t>{6, 5});
  CHECK(rows_of(rows) == RowNumbers{{4, 5, 0, 1, 2, 3}});
  CHECK_THROWS_AS(rows_in("opt", "embedding.position.weight", 1, 5), InfeasibleError);
}

TEST_CASE("a language model beside towers has names of its own, and no adapters") {
  const auto name = [](const std::string& type, const std::string& parameter) {
    return rows_in(type, parameter, 24, 5).tensors.front().name;
  };
  CHECK(name("gemma3", "layer1.proj.weight") == "language_model.model.layers.1.self_attn.o_proj.weight");
  CHECK(name("mistral3", "output.weight") == "language_model.lm_head.weight");
  CHECK(name("qwen3_vl", "layer1.proj.weight") == "model.language_model.layers.1.self_attn.o_proj.weight");
  CHECK(name("qwen3_vl", "output.weight") == "lm_head.weight");
  CHECK(name("qwen2_5_vl", "layer1.proj.weight") == "model.layers.1.self_attn.o_proj.weight");
  const WeightTable table = weight_table("qwen3_5");
  CHECK(table.towers == std::vector<std::string>{"model.visual.", "mtp."});
  CHECK(weight_table("qwen3_5_text").towers.empty());
  CHECK_THROWS_AS(adapter_rows(table, small_model(), {{"layer1.proj.lora_a", 2, 5}, {"layer1.proj.lora_b", 24, 2}}), InfeasibleError);
}

TEST_CASE("a decoder behind an encoder counts its own layers, and its keys and values alternate by heads") {
  const WeightTable table = weight_table("t5");
  const auto rows = [&](const std::string& name, std::int64_t count) {
    return rows_in_files(table, model_with_decoder(), {{name, count, 5}}).front();
  };
  CHECK(rows("layer1.proj.weight", 8).tensors.front().name == "encoder.block.1.layer.0.SelfAttention.o.weight");
  CHECK(rows("layer2.proj.weight", 8).tensors.front().name == "decoder.block.0.layer.0.SelfAttention.o.weight");
  const ParameterRows both = rows("layer3.cross_kv.weight", 10);
  CHECK(both.tensors[1].name == "decoder.block.1.layer.1.EncDecAttention.v.weight");
  CHECK(both.tensors[0].shape == std::vector<std::int64_t>{6, 5});
  CHECK(rows_of(both) == RowNumbers{{0, 1, 2, 5, 6, 7}, {3, 4, 8, 9}});
  CHECK_THROWS_AS(rows("layer3.cross_kv.weight", 11), InfeasibleError);
  CHECK_THROWS_AS(rows("layer1.cross_kv.weight", 10), InfeasibleError);
}

TEST_CASE("a gated MLP of T5 has two matrices, any other one") {
  ModelSpec model = model_with_decoder();
  const auto tensors = [&](Activation activation) {
    model.activation = activation;
    return rows_in_files(weight_table("t5"), model, {{"layer2.fc1.weight", 12, 5}}).front().tensors;
  };
  CHECK(tensors(Activation::relu).front().name == "decoder.block.0.layer.2.DenseReluDense.wi.weight");
  CHECK(tensors(Activation::geglu).back().name == "decoder.block.0.layer.2.DenseReluDense.wi_1.weight");
  CHECK(tensors(Activation::geglu).size() == 2);
}

TEST_CASE("gates alternate with what they multiply, expert by expert") {
  const ParameterRows p = rows_in("mixtral", "layer0.experts.fc1.weight", 12, 5);
  REQUIRE(p.tensors.size() == 6);
  CHECK(p.tensors[3].name == "model.layers.0.block_sparse_moe.experts.1.w3.weight");
  CHECK(rows_of(p) == RowNumbers{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}});
}

TEST_CASE("interleaved rotary dimensions are the halves of a head") {
  ModelSpec model = small_model();
  model.head_dim = 4, model.value_dim = 2, model.rotary_fraction = 1;
  const auto rows = rows_of(rows_in_files(weight_table("ernie4_5"), model, {{"layer0.qkv.weight", 28, 5}}).front());
  CHECK(rows[0] == std::vector<std::int64_t>{0, 2, 1, 3, 4, 6, 5, 7, 14, 16, 15, 17, 18, 20, 19, 21});
  CHECK(rows[1] == std::vector<std::int64_t>{8, 10, 9, 11, 22, 24, 23, 25});
  CHECK(rows[2] == std::vector<std::int64_t>{12, 13, 26, 27});
}

TEST_CASE("latent attention has rotary dimensions first where DeepSeek's files have them last, in pairs") {
  const WeightTable table = weight_table("deepseek_v3");
  const auto rows = [&](const ModelSpec& model, const WholeParameter& p) { return rows_in_files(table, model, {p}).front(); };
  CHECK(rows_of(rows(latent_model(), {"layer0.q_up.weight", 12, 6})) == RowNumbers{{2, 0, 1, 5, 3, 4, 8, 6, 7, 11, 9, 10}});
  CHECK(rows_of(rows(latent_model(), {"layer0.kv_down.weight", 10, 5})) == RowNumbers{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}});
  CHECK(rows(latent_model(0), {"layer0.q_up.weight", 12, 5}).tensors.front().name == "model.layers.0.self_attn.q_proj.weight");
  CHECK_THROWS_AS(rows(small_model(), {"layer0.q_up.weight", 12, 6}), InfeasibleError);
}

TEST_CASE("a gate of attention lies before the groups, and rows of a recurrence lie by key heads") {
  ModelSpec model = small_model();
  model.head_dim = model.value_dim = 2;
  model.recurrence.heads = 4, model.recurrence.key_heads = 2, model.recurrence.key_dim = 2, model.recurrence.value_dim = 1;
  const auto rows = [&](const char* type, const char* name, std::int64_t n) {
    return rows_of(rows_in_files(weight_table(type), model, {{name, n, 5}}).front());
  };
  const RowNumbers gated{{8, 9, 0, 1, 10, 11, 2, 3, 16, 17, 4, 5, 18, 19, 6, 7}, {12, 13, 20, 21}, {14, 15, 22, 23}};
  CHECK(rows("qwen3_next", "layer1.qkv.weight", 24) == gated);
  const std::vector<std::int64_t> mixed{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11};  // queries, keys and values of both key heads
  CHECK(rows("qwen3_5_text", "layer0.recurrence_in.weight", 24) == RowNumbers{mixed, {12, 13, 14, 15}, {16, 18, 20, 22}, {17, 19, 21, 23}});
  CHECK(rows("qwen3_next", "layer0.recurrence_in.weight", 24) ==
        RowNumbers{{0, 1, 2, 3, 4, 5, 12, 13, 6, 7, 8, 9, 10, 11, 14, 15}, {17, 19, 16, 18, 21, 23, 20, 22}});
  CHECK(rows("qwen3_next", "layer0.recurrence_conv.weight", 12) == RowNumbers{mixed});
}

TEST_CASE("rows of Mamba 2 lie as values, keys and queries, with gates above them and what forgets below") {
  ModelSpec model = small_model();
  model.head_dim = model.value_dim = 2;
  model.recurrence.heads = 4, model.recurrence.key_heads = 2, model.recurrence.key_dim = 2, model.recurrence.value_dim = 1;
  const auto in = [&](const char* name, std::int64_t n, std::int64_t cols) {
    return rows_in_files(weight_table("bamba"), model, {{name, n, cols}}).front();
  };
  const std::vector<std::int64_t> mixed{4, 5, 10, 11, 2, 3, 8, 9, 0, 1, 6, 7};
  std::vector<std::int64_t> all{12, 13, 14, 15};
  all.insert(all.end(), mixed.begin(), mixed.end());
  all.insert(all.end(), {16, 17, 18, 19});
  CHECK(rows_of(in("layer0.recurrence_in.weight", 20, 5)) == RowNumbers{all});
  CHECK(rows_of(in("layer0.recurrence_conv.weight", 12, 4)) == RowNumbers{mixed});
  CHECK(in("layer0.recurrence_conv.weight", 12, 4).tensors.front().shape == std::vector<std::int64_t>{12, 1, 4});
  CHECK(rows_of(in("layer0.recurrence_conv.bias", 12, 1)) == RowNumbers{mixed});
  CHECK(in("layer0.recurrence_conv.bias", 12, 1).tensors.front().shape == std::vector<std::int64_t>{12});
  CHECK_THROWS_AS(in("layer0.recurrence_in.weight", 24, 5), InfeasibleError);
}

TEST_CASE("a module of multi-token prediction is the layer behind the last, and its joined matrix lies side by side") {
  const WeightTable table = weight_table("deepseek_v3");
  const ParameterRows join = rows_in_files(table, latent_model(), {{"mtp0.join.weight", 10, 5}}).front();
  CHECK(join.tensors.front().name == "model.layers.2.eh_proj.weight");
  CHECK(join.tensors.front().shape == std::vector<std::int64_t>{5, 10});
  CHECK(rows_of(join) == RowNumbers{{0, 5, 1, 6, 2, 7, 3, 8, 4, 9}});
  CHECK(rows_in_files(table, latent_model(), {{"mtp0.proj.weight", 5, 8}}).front().tensors.front().name == "model.layers.2.self_attn.o_proj.weight");
  CHECK_THROWS_AS(rows_in_files(weight_table("llama"), latent_model(), {{"mtp0.proj.weight", 5, 8}}), InfeasibleError);
}

TEST_CASE("a stacked tensor has a matrix for each expert") {
  const ParameterRows apart = rows_in("gpt_oss", "layer0.experts.fc1.weight", 12, 5), below = rows_in("llama4_text", "layer0.experts.fc1.weight", 12, 5);
  CHECK(apart.tensors.front().shape == std::vector<std::int64_t>{3, 5, 4});
  CHECK(rows_of(apart) == RowNumbers{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}});
  CHECK(rows_of(below) == RowNumbers{{0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11}});
  CHECK(rows_in("gpt_oss", "layer0.experts.fc1.bias", 12, 1).tensors.front().shape == std::vector<std::int64_t>{3, 4});
}

TEST_CASE("a configuration has the factors of a plan's model in its own fields, to the last bit") {
  const auto config = [](const char* type, const nlohmann::json& factors) {
    nlohmann::json model{{"head_dim", 16}, {"num_layers", 2}, {"rope_scaling", {{"type", "none"}}}, {"window", {{"size", 0}}},
                         {"attention_soft_cap", 0}, {"logit_soft_cap", 0}};
    model.update(factors);
    return config_of(weight_table(type), {{"model", model}});
  };
  const nlohmann::json none = config("granite", nlohmann::json::object());
  for (const char* field : {"residual_multiplier", "logits_scaling", "embedding_multiplier"}) CHECK(none[field] == 1.0);
  CHECK(none["attention_multiplier"] == 0.25);
  for (const double divisor : {8.0, 6.0, 49.0, 10.24, 13.7}) CHECK(config("granite", {{"logit_scale", 1 / divisor}})["logits_scaling"] == divisor);
  CHECK(config("granite", {{"residual_scale", 0.22}})["residual_multiplier"] == 0.22);
  CHECK(config("granite", {{"attention_scale", 0.015625}})["attention_multiplier"] == 0.015625);
  CHECK(config("cohere", {{"logit_scale", 0.0625}})["logit_scale"] == 0.0625);
  CHECK(config("cohere", nlohmann::json::object())["logit_scale"] == 1.0);  // left out, it is 0.0625
  CHECK(config("gemma2", nlohmann::json::object())["query_pre_attn_scalar"] == 16);
  for (const int width : {144, 168, 224, 256}) {
    const nlohmann::json said = config("gemma2", {{"attention_scale", 1 / std::sqrt(width)}})["query_pre_attn_scalar"];
    CHECK(said == width);
    CHECK(said.is_number_integer());
  }
}

TEST_CASE("weights in 8 bits have scales of square blocks if the configuration says so") {
  const auto block = [](const char* text) { return scaled_block(nlohmann::json{{"quantization_config", nlohmann::json::parse(text)}}); };
  CHECK(block(R"({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]})") == 128);
  CHECK(block(R"({"quant_method": "fp8", "fmt": "e5m2", "weight_block_size": [128, 128]})") == 0);
  CHECK(block(R"({"quant_method": "fp8", "weight_block_size": [1, 128]})") == 0);
  CHECK(block(R"({"quant_method": "mxfp4"})") == 0);
  CHECK(block("null") == 0);
}

TEST_CASE("adapters of PEFT have the parts of a matrix apart, with its A in each") {
  const ModelSpec model = small_model();
  const auto rows = adapter_rows(weight_table("llama"), model, {{"layer1.qkv.lora_a", 2, 5}, {"layer1.qkv.lora_b", 22, 2}});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].tensors[2].name == "base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight");
  CHECK(rows[0].tensors[2].shape == std::vector<std::int64_t>{2, 5});
  CHECK(rows[1].tensors[1].name == "base_model.model.model.layers.1.self_attn.k_proj.lora_B.weight");
  CHECK(rows_of(rows[1]) == RowNumbers{{0, 1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 16}, {6, 7, 8, 17, 18, 19}, {9, 10, 20, 21}});
  CHECK(adapter_modules(rows) == std::vector<std::string>{"self_attn.k_proj", "self_attn.q_proj", "self_attn.v_proj"});
  CHECK(adapts_transposed(weight_table("gpt2"), {{"layer0.qkv.lora_a", 2, 5}}));
  CHECK_FALSE(adapts_transposed(weight_table("llama"), {{"layer0.qkv.lora_a", 2, 5}}));
  CHECK_THROWS_AS(adapter_rows(weight_table("deepseek_v3"), model, {{"layer1.qkv.lora_a", 2, 5}, {"layer1.qkv.lora_b", 22, 2}}), InfeasibleError);
}

TEST_CASE("parameters that a type does not have, or has in other rows, are refused by name") {
  const auto reason = [](const std::string& type, const std::string& name, std::int64_t rows) {
    try {
      rows_in(type, name, rows, 5);
    } catch (const InfeasibleError& e) {
      return e.problems().front().field + e.problems().front().reason;
    }
    return std::string();
  };
  CHECK(reason("llama", "layer1.q_norm.weight", 3) == "layer1.q_norm.weighttype llama has no such weights");
  CHECK(reason("llama", "layer1.qkv.weight", 21) == "layer1.qkv.weighttype llama has other rows here");
  CHECK(reason("llama", "layer1.fc1.weight", 21) == "layer1.fc1.weighttype llama has other rows here");
  CHECK(reason("mixtral", "layer1.experts.fc2.weight", 22) == "layer1.experts.fc2.weighttype mixtral has other rows here");
  CHECK_THROWS_AS(weight_table("helium"), ConfigError);
}
