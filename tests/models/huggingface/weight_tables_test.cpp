// Names and rows of weights in files of transformers. Losses beside transformers': tests/tandem/commands/weights_test.py.
#include <nlohmann/json.hpp>
#include <set>

#include "models/base/error.hpp"
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
  model.moe.num_experts = 3;
  return model;
}

WholeParameter parameter_of(std::string key) {
  if (key.starts_with("layer.")) key.insert(5, "1");
  const bool of_groups = key.find("qkv") != std::string::npos, vector = key.ends_with(".bias") || key.find("norm.") != std::string::npos;
  return {key, of_groups ? std::int64_t{2} * (6 + 3 + 2) : std::int64_t{24}, vector ? 1 : 5};
}

/// The parameter's row at each row of each tensor.
RowNumbers rows_of(const ParameterRows& p) {
  RowNumbers out;
  for (const FileTensor& t : p.tensors)
    out.emplace_back(static_cast<std::size_t>(p.transposed ? t.shape.back() : t.shape.front()), -1);
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
      const ParameterRows rows = rows_in_files(table, small_model(), {p}).front();
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

TEST_CASE("gates alternate with what they multiply, expert by expert") {
  const ParameterRows p = rows_in("mixtral", "layer0.experts.fc1.weight", 12, 5);
  REQUIRE(p.tensors.size() == 6);
  CHECK(p.tensors[3].name == "model.layers.0.block_sparse_moe.experts.1.w3.weight");
  CHECK(rows_of(p) == RowNumbers{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}});
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
  CHECK_THROWS_AS(weight_table("glm"), ConfigError);
}
