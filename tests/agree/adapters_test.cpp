// Low-rank adapters beside frozen weights: every layout trains like one rank and does what was simulated; gradients are slopes of the
// loss; frozen weights stay as they are, bit for bit.

#include <nlohmann/json.hpp>

#include "tests/agree/adapted_plans.hpp"

using namespace tandem;
using nlohmann::json;
using tests::adapted_options;
using tests::check_like_one_rank;
using tests::check_slopes;
using tests::is_adapter;
using tests::lowers;
using tests::names_some;
using tests::patched;
using tests::train_adapted;

namespace {

constexpr const char* kAll = R"({"training": {"lora": {"rank": 3, "alpha": 6}}})";
constexpr const char* kDropping = R"({"training": {"lora": {"rank": 3, "alpha": 6, "dropout": 0.3}}})";

std::map<std::string, std::vector<double>> by_name(const std::vector<exec::GatheredTensor>& tensors) {
  std::map<std::string, std::vector<double>> all;
  for (const exec::GatheredTensor& t : tensors) all[t.name] = t.values;
  return all;
}

}  // namespace

TEST_CASE("with adapters every layout trains like one rank in fp64, to rounding", "[adapters]") {
  const std::string patch = R"({"training": {"lora": {"rank": 3, "alpha": 6, "dropout": 0.25}}, "parallel": {"tensor_overlap": false}})";
  for (const bool llama : {false, true})
    for (tests::SmallPlan p : tests::layouts()) {
      p.llama = llama;
      tests::SmallPlan one = tests::layout(1, 1, 1, p.micro_batches * p.data);
      one.llama = llama;
      INFO(p.label());
      check_like_one_rank(p.json(), one.json(), patch);
    }
}

TEST_CASE("random legal plans with adapters train like one rank and as simulated", "[adapters]") {
  std::size_t checked = 0;
  for (const tests::Case& c : tests::random_cases(400, 20261129)) {
    const std::string text = tests::plan_json(c, "fp64");
    const char* const patches[] = {kAll, R"({"training": {"lora": {"rank": 2, "alpha": 1, "targets": ["qkv", "proj"]}}})",
                                   R"({"training": {"lora": {"rank": 1, "targets": ["fc1"]}}})",
                                   R"({"training": {"lora": {"rank": 4, "targets": ["fc2", "qkv"]}}})", kDropping,
                                   R"({"training": {"lora": {"rank": 2, "targets": ["fc2", "proj"], "dropout": 0.5}}})"};
    const std::string patch = patches[checked % std::size(patches)];
    if (!names_some(text, patch) || !lowers(text, patch)) continue;
    INFO("case " << checked << ": " << tests::text(c) << " " << patch);
    CHECK_NOTHROW(check_like_one_rank(text, tests::reference_json(c, "fp64"), patch));
    ++checked;
  }
  CHECK(checked >= 60);
}

TEST_CASE("random legal mixtures of experts with adapters of each expert train like one rank and as simulated", "[adapters]") {
  std::size_t checked = 0, spread = 0;
  for (const tests::Case& c : tests::random_cases(2500, 20261130)) {
    const std::string text = tests::plan_json(c, "fp64");
    const char* const patches[] = {R"({"training": {"lora": {"rank": 2, "alpha": 3, "targets": ["experts.fc1", "experts.fc2", "qkv"]}}})",
                                   R"({"training": {"lora": {"rank": 3, "targets": ["experts.fc2"]}}})",
                                   R"({"training": {"lora": {"rank": 1, "targets": ["fc1", "experts.fc1", "fc2"]}}})"};
    const std::string patch = patches[checked % std::size(patches)];
    if (!json::parse(text)["model"].contains("moe") || !lowers(text, patch)) continue;
    INFO("case " << checked << ": " << tests::text(c) << " " << patch);
    CHECK_NOTHROW(check_like_one_rank(text, tests::reference_json(c, "fp64"), patch));
    spread += json::parse(text)["parallel"].value("expert", 1) > 1;
    if (++checked == 40) break;
  }
  CHECK(checked >= 20);
  CHECK(spread >= 3);
}

TEST_CASE("two-layer models with adapters give PyTorch's logits, gradients, losses and weights over 20 AdamW steps", "[adapters]") {
  for (const char* name : {"lora/gpt", "lora/llama", "lora/qwen3"}) tests::check_adapters_against_pytorch(name);
}

TEST_CASE("gradients of adapters are slopes of the loss", "[adapters]") {
  tests::SmallPlan small;
  small.llama = true;
  small.tensor = 2;
  small.micro_batches = 1;
  const auto [lora, parameters] = GENERATE(table<std::string, std::size_t>(
      {{R"({"training": {"lora": {"rank": 2, "alpha": 3}}})", 16},
       {R"({"training": {"lora": {"rank": 2, "alpha": 3, "dropout": 0.4}}})", 16},
       {R"({"model": {"moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 16, "num_shared_experts": 1, "aux_loss": 0}},
            "parallel": {"expert_tensor": 1, "expert": 2, "sequence_parallel": true},
            "training": {"lora": {"rank": 2, "alpha": 3, "targets": ["fc1", "fc2", "experts.fc1", "experts.fc2"]}}})", 16}}));
  INFO(lora);
  check_slopes(small.json(), lora, parameters);
}

TEST_CASE("an adapter whose B is 0 leaves the first loss as it is, bit for bit", "[adapters]") {
  for (const char* precision : {"fp64", "fp32", "bf16"})
    for (const int tensor : {1, 2}) {
      tests::SmallPlan p;
      p.precision = precision;
      p.tensor = tensor;
      const auto first = [&](const Plan& plan) { return tests::train(plan, 1).steps.front().loss; };
      CHECK(first(patched(p.json(), kAll)) == first(p.plan()));
    }
}

TEST_CASE("frozen weights stay as they are, bit for bit, and adapters change", "[adapters]") {
  for (const int zero : {0, 1, 2, 3}) {
    tests::SmallPlan p = tests::layout(2, 1, 2, 3);
    p.precision = "bf16";
    const std::string sharded = R"({"parallel": {"zero_stage": )" + std::to_string(zero) + R"(}, "training": {"lora": {"rank": 3}}})";
    const Plan plan = patched(p.json(), sharded);
    const TaskGraph graph = lower(plan);
    const auto one = by_name(train_adapted(plan, graph, 1).weights), four = by_name(train_adapted(plan, graph, 4).weights);
    tests::SmallPlan still = p;  // a step at rate 0 changes nothing
    const Plan at_zero = patched(still.json(), R"({"training": {"learning_rate": 0, "min_learning_rate": 0}})");
    const auto base = by_name(tests::train(at_zero, 1).weights);
    REQUIRE(one.size() == four.size());
    std::size_t frozen = 0;
    for (const auto& [name, values] : one) {
      INFO("zero " << zero << " " << name);
      const bool same = values == four.at(name);
      CHECK(same == !is_adapter(name));
      if (is_adapter(name)) continue;
      ++frozen;
      const bool begins_alike = values == base.at(name);
      CHECK(begins_alike);
    }
    CHECK(frozen == base.size());
  }
}
