// Adapters beside frozen weights in 4 bits (QLoRA): training is that of a model with the dequantized weights, bit for bit.

#include "exec/shared/nf4.hpp"
#include "tests/agree/adapted_plans.hpp"

using namespace tandem;
using tests::adapted_options;
using tests::check_like_one_rank;
using tests::patched;
using tests::train_adapted;

namespace {

/// Rows of every matrix are whole blocks of 64 on up to two tensor ranks.
const std::string kWide = R"({"model": {"hidden_size": 128, "ffn_hidden_size": 256}, "training": {"lora": {"rank": 3, "alpha": 6}}})";
const std::string kNf4 = R"({"model": {"hidden_size": 128, "ffn_hidden_size": 256}, "training": {"lora": {"rank": 3, "alpha": 6, "base": "nf4"}}})";

std::map<std::string, std::vector<double>> by_name(const std::vector<exec::GatheredTensor>& tensors) {
  std::map<std::string, std::vector<double>> all;
  for (const exec::GatheredTensor& t : tensors) all[t.name] = t.values;
  return all;
}

bool is_quantized(const std::string& name) {
  return name.ends_with("qkv.weight") || name.ends_with("proj.weight") || name.ends_with("fc1.weight") || name.ends_with("fc2.weight");
}

}  // namespace

TEST_CASE("a quantized model trains its adapters as one whose weights are the dequantized ones, bit for bit", "[quantized_adapters]") {
  for (const char* precision : {"fp64", "fp32", "bf16", "fp16"})
    for (const char* recompute : {"none", "full"})
      for (const bool llama : {false, true}) {
        INFO(precision << " " << recompute << " " << llama);
        tests::SmallPlan p = tests::layout(2, 1, 1, 2);
        p.precision = precision, p.recompute = recompute, p.llama = llama, p.layers = 2;
        const Plan narrow = patched(p.json(), kNf4), wide = patched(p.json(), kWide);
        const exec::RunResult run = train_adapted(narrow, lower(narrow), 3);
        const auto weights = by_name(run.weights);
        exec::RunOptions options = adapted_options(3);
        options.initialise = [&](const std::string& name, std::vector<double>& full) {
          if (is_quantized(name)) full = weights.at(name);
          tests::draw_b(name, full);
        };
        const exec::RunResult same = exec::run(wide, lower(wide), tests::HashTokens(wide.model.vocab_size), options);
        for (std::size_t i = 0; i < run.steps.size(); ++i) CHECK(run.steps[i].loss == same.steps[i].loss);
        const auto trained = by_name(same.weights);
        for (const auto& [name, values] : weights) {
          INFO(name);
          const bool narrower = is_quantized(name) && bits(wide.training.dtypes.weights) == 16;  // gathered as they are stored
          if (!narrower) CHECK((values == trained.at(name)));
        }
        const double plain = train_adapted(wide, lower(wide), 1).steps.front().loss;
        CHECK(run.steps.front().loss != plain);
        CHECK(std::abs(run.steps.front().loss / plain - 1) < 0.05);
      }
}

TEST_CASE("the quantized weights are the model's own initial values, block by block, and stay", "[quantized_adapters]") {
  tests::SmallPlan p = tests::layout(1, 1, 1, 2);
  p.precision = "fp32", p.llama = true, p.layers = 2;
  const Plan narrow = patched(p.json(), kNf4), wide = patched(p.json(), kWide);
  const auto one = by_name(train_adapted(narrow, lower(narrow), 1).weights);
  const auto three = by_name(train_adapted(narrow, lower(narrow), 3).weights);
  const auto whole = by_name(train_adapted(wide, lower(wide), 1).weights);
  REQUIRE(one.size() == whole.size());
  std::size_t quantized = 0;
  for (const auto& [name, values] : one) {
    INFO(name);
    if (tests::is_adapter(name)) continue;
    CHECK((values == three.at(name)));
    if (!is_quantized(name)) {
      CHECK((values == whole.at(name)));
      continue;
    }
    ++quantized;
    for (std::size_t at = 0; at < values.size(); at += 64) {
      float block[64];
      for (std::size_t i = 0; i < 64; ++i) block[i] = static_cast<float>(whole.at(name)[at + i]);
      const exec::Nf4Block stored = exec::nf4_block(block);
      for (int i = 0; i < 64; ++i) REQUIRE(values[at + static_cast<std::size_t>(i)] == static_cast<double>(stored.value(i)));
    }
  }
  CHECK(quantized == 2 * 4);
}

TEST_CASE("quantized layouts train like one rank in fp64 and as simulated", "[quantized_adapters]") {
  for (const bool llama : {false, true})
    for (tests::SmallPlan p : tests::layouts()) {
      if (p.tensor > 2) continue;
      p.llama = llama;
      tests::SmallPlan one = tests::layout(1, 1, 1, p.micro_batches * p.data);
      one.llama = llama;
      INFO(p.label());
      nlohmann::json patch = nlohmann::json::parse(kNf4);
      patch["parallel"]["tensor_overlap"] = false;
      check_like_one_rank(p.json(), one.json(), patch.dump());
    }
}

TEST_CASE("gradients of adapters beside quantized weights are slopes of the loss", "[quantized_adapters]") {
  tests::SmallPlan small;
  small.llama = true;
  small.tensor = 2;
  small.micro_batches = 1;
  tests::check_slopes(small.json(), kNf4, 16);
}
