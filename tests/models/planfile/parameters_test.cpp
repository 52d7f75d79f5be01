// Parameter counts against published figures: those of every preset file, and some that no preset carries.

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/plan/active_parameters.hpp"
#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;

namespace {

std::int64_t padded_vocabulary(const ModelSpec& m) {
  return (m.vocab_size + m.pad_vocab_to - 1) / m.pad_vocab_to * m.pad_vocab_to;
}

/// What the publisher counted: everything, everything as stored, or the layers alone.
std::int64_t counted(const ModelSpec& m, const std::string& what) {
  const ParameterCount c = count_parameters(m, padded_vocabulary(m));
  if (what == "padded") return c.total_padded;
  return what == "layers" ? m.num_layers * c.per_layer : c.total;
}

struct Exact {
  const char* preset;
  std::int64_t parameters;
};

}  // namespace

TEST_CASE("every model preset counts to its published figure, to the digit that is printed") {
  for (const std::string& name : preset_names("models/presets")) {
    INFO(name);
    const nlohmann::json file = read_json(find_preset("models/presets", name));
    const ModelSpec model = load_model(name);
    CHECK(!file["source"].empty());
    if (name == "gpt-small-demo") continue;  // ours: nobody published it
    const nlohmann::json& figure = file["parameters"];
    CHECK(!figure["source"].empty());
    const std::int64_t unit = figure["rounded_to"], published = figure["published"];
    const double count = static_cast<double>(counted(model, figure.value("counted", "all")));
    CHECK(std::llround(count / static_cast<double>(unit)) * unit == published);
  }
}

TEST_CASE("exactly published counts are met exactly") {
  // Numbers of elements of the published checkpoints, written here a second time, apart from the preset files.
  const Exact e = GENERATE(
      Exact{"gpt2-124m", 124'439'808}, Exact{"llama-7b", 6'738'415'616}, Exact{"llama-13b", 13'015'864'320},
      Exact{"llama-65b", 65'285'660'672}, Exact{"llama2-7b", 6'738'415'616}, Exact{"llama2-13b", 13'015'864'320},
      Exact{"llama2-70b", 68'976'648'192}, Exact{"llama3-8b", 8'030'261'248}, Exact{"llama3-70b", 70'553'706'496},
      Exact{"llama3-405b", 405'853'388'800}, Exact{"mixtral-8x7b", 46'702'792'704}, Exact{"t5-11b", 11'307'321'344});
  INFO(e.preset);
  CHECK(counted(load_model(e.preset), "all") == e.parameters);
}

TEST_CASE("BLOOM's published count is of the padded vocabulary, and 3,596,615,680 of it is the embedding") {
  const ModelSpec bloom = load_model("bloom-176b");
  CHECK(padded_vocabulary(bloom) == 250'880);
  CHECK(count_parameters(bloom, 250'880).total_padded == 176'247'271'424);
  CHECK(250'880 * bloom.hidden_size == 3'596'615'680);
}

TEST_CASE("the Megatron sizes follow the paper's closed form") {
  // arXiv 2104.04473 equation 2: 12 L h^2 (1 + 13/(12 h) + (V + s)/(12 L h)), which leaves out the final norm's 2 h.
  for (const char* size : {"1.7b", "3.6b", "7.5b", "18b", "39b", "76b", "145b", "310b", "530b", "1t"}) {
    const ModelSpec m = load_model(std::string("megatron-") + size);
    const std::int64_t L = m.num_layers, h = m.hidden_size;
    CHECK(counted(m, "all") == 12 * L * h * h + 13 * L * h + (51'200 + 2'048) * h + 2 * h);
  }
}

TEST_CASE("BERT-Large with both pre-training heads has 336,226,108 parameters") {
  // bert-large-uncased as published, BertForPreTraining: pooler, masked-token head and next-sentence head included.
  const Plan plan =
      parse_plan(R"({"model": {"family": "bert", "num_layers": 24, "hidden_size": 1024, "num_attention_heads": 16,
    "vocab_size": 30522, "max_position_embeddings": 512}, "training": {"seq_length": 128, "micro_batch_size": 1,
    "global_batch_size": 1}, "cluster": {"preset": "cpu-host", "devices": 1}})",
                 "bert-large");
  CHECK(count_parameters(plan.model, plan.padded_vocab_size()).total == 336'226'108);
}

TEST_CASE("the BERT presets store what the DeepSpeed configurations imply") {
  // max_group_size 1310822400 of the 5B configuration is its padded embedding, 512,040 x 2,560.
  const ModelSpec five = load_model("bert-5b");
  CHECK(padded_vocabulary(five) * five.hidden_size == 1'310'822'400);
  CHECK(counted(five, "padded") == 6'282'396'202);
  CHECK(counted(load_model("bert-1.5b"), "padded") == 1'530'388'930);
}

TEST_CASE("layers with experts are counted where they stand") {
  ModelSpec m = load_model("mixtral-8x7b");
  m.moe.first_dense_layers = 2;
  m.moe.layer_frequency = 2;
  std::int64_t sparse = 0;
  for (std::int64_t l = 0; l < m.num_layers; ++l) sparse += m.has_experts(l) ? 1 : 0;
  CHECK(sparse == 15);  // layers 2, 4 ... 30
  const ParameterCount c = count_parameters(m, m.vocab_size);
  CHECK(c.total == 15 * c.per_moe_layer + 17 * c.per_layer + c.embedding + c.head);
  m.moe.num_shared_experts = 1;
  CHECK(count_parameters(m, m.vocab_size).per_moe_layer - c.per_moe_layer == 3 * m.hidden_size * m.moe.ffn_hidden_size);
}

TEST_CASE("every second layer has experts from the first behind the dense ones on") {
  ModelSpec m = load_model("mixtral-8x7b");
  m.moe.layer_frequency = 2;
  const auto layers = [&](std::int64_t dense) {
    m.moe.first_dense_layers = dense;
    std::string out;
    for (std::int64_t l = 0; l < 8; ++l) out += m.has_experts(l) ? 'E' : '-';
    return out;
  };
  CHECK(layers(0) == "E-E-E-E-");
  CHECK(layers(1) == "-E-E-E-E");  // Llama 4 Maverick
  CHECK(layers(3) == "---E-E-E");
}

TEST_CASE("the demo's model is the sum of its tensors") {
  const std::int64_t h = 128, f = 512, layer = (3 * h * h + 3 * h) + (h * h + h) + (f * h + f) + (h * f + h) + 4 * h;
  CHECK(counted(load_model("gpt-small-demo"), "all") == 4 * layer + 256 * h + 128 * h + 2 * h);
}

TEST_CASE("active parameters are what publishers of mixtures of experts print") {
  struct Published {
    const char* preset;
    double active;  // in units of `rounded_to`
    double rounded_to;
    bool embedding;
  };
  // Mixtral: mistral.ai/news/mixtral-of-experts and mixtral-8x22b. OLMoE: arXiv 2409.02060, table 1. gpt-oss: arXiv 2508.10925, table 1,
  // which counts the output matrix and not the embedding. DeepSeek-V3: arXiv 2412.19437, abstract.
  const Published p = GENERATE(Published{"mixtral-8x7b", 129, 1e8, true}, Published{"mixtral-8x22b", 39, 1e9, true},
                               Published{"olmoe-1b-7b", 13, 1e8, true}, Published{"gpt-oss-120b", 513, 1e7, false},
                               Published{"gpt-oss-20b", 361, 1e7, false}, Published{"deepseek-v3", 37, 1e9, false});
  INFO(p.preset);
  const ModelSpec m = load_model(p.preset);
  const std::int64_t embedding = count_parameters(m, m.vocab_size).embedding;
  CHECK(std::round(static_cast<double>(active_parameters(m) - (p.embedding ? 0 : embedding)) / p.rounded_to) == p.active);
}

TEST_CASE("layers without experts have none that a token leaves out") {
  ModelSpec m = load_model("mixtral-8x7b");
  m.sublayers = "mf";  // 16 layers mix, 16 have experts
  constexpr std::int64_t kExpert = std::int64_t{3} * 4096 * 14336;
  CHECK(count_parameters(m, m.vocab_size).total - active_parameters(m) == 16 * (8 - 2) * kExpert);
}

TEST_CASE("all parameters of a dense model are active, and modules of multi-token prediction never are") {
  const ModelSpec dense = load_model("llama3-8b");
  CHECK(active_parameters(dense) == count_parameters(dense, dense.vocab_size).total);
  ModelSpec with = load_model("deepseek-v3");
  with.mtp.num_layers = 0;
  const std::int64_t without = active_parameters(with);
  with.mtp.num_layers = 2;
  CHECK(active_parameters(with) == without);
}
