// Adapters of queries, keys, values, gate and up alone, each with an A of its own, as PEFT's have: every layout trains like one rank and
// does what was simulated; gradients are slopes of the loss; PyTorch's numbers.

#include <algorithm>

#include "tests/agree/adapted_plans.hpp"

using namespace tandem;

namespace {

constexpr const char* kHeads = R"(["q", "k", "v", "proj"])";
constexpr const char* kEach = R"(["q", "k", "v", "proj", "gate", "up", "fc2"])";

std::string lora(const std::string& targets, const std::string& more = "") {
  return R"({"training": {"lora": {"rank": 2, "alpha": 3, "targets": )" + targets + more + R"(}}, "parallel": {"tensor_overlap": false}})";
}

}  // namespace

TEST_CASE("with adapters of parts every layout trains like one rank in fp64, to rounding", "[adapters]") {
  for (const bool llama : {false, true})
    for (const char* dropout : {"", R"(, "dropout": 0.25)"})
      for (tests::SmallPlan p : tests::layouts()) {
        p.llama = llama;
        tests::SmallPlan one = tests::layout(1, 1, 1, p.micro_batches * p.data);
        one.llama = llama;
        INFO(p.label() << dropout);
        tests::check_like_one_rank(p.json(), one.json(), lora(llama ? kEach : kHeads, dropout));
      }
}

TEST_CASE("random legal plans with adapters of parts train like one rank and as simulated", "[adapters]") {
  std::size_t checked = 0, shared = 0;
  for (const tests::Case& c : tests::random_cases(800, 20261201)) {
    const std::string text = tests::plan_json(c, "fp64");
    const std::string patches[] = {lora(kEach), lora(R"(["q", "v"])"), lora(R"(["q", "v"])", R"(, "dropout": 0.5)"), lora(R"(["k", "gate", "fc2"])"),
                                   lora(R"(["v", "up", "proj"])", R"(, "dropout": 0.3)"), lora(R"(["q", "k", "v", "fc1"])")};
    const std::string patch = patches[checked % std::size(patches)];
    if (!tests::names_some(text, patch) || !tests::lowers(text, patch)) continue;
    INFO("case " << checked << ": " << tests::text(c) << " " << patch);
    CHECK_NOTHROW(tests::check_like_one_rank(text, tests::reference_json(c, "fp64"), patch));
    const Plan plan = tests::patched(text, patch);
    shared += plan.parallel.tensor > plan.model.num_kv_heads;
    if (++checked == 60) break;
  }
  CHECK(checked >= 40);
  CHECK(shared > 0);
}

TEST_CASE("random mixtures of experts with adapters of each expert's gate and up train like one rank and as simulated", "[adapters]") {
  std::size_t checked = 0, spread = 0;
  for (const tests::Case& c : tests::random_cases(2500, 20261202)) {
    const std::string text = tests::plan_json(c, "fp64");
    const std::string patches[] = {lora(R"(["experts.gate", "experts.up", "q"])"), lora(R"(["experts.up", "experts.fc2"])"), lora(R"(["gate", "experts.gate"])")};
    const std::string patch = patches[checked % std::size(patches)];
    if (text.find("\"moe\"") == std::string::npos || !tests::names_some(text, patch) || !tests::lowers(text, patch)) continue;
    INFO("case " << checked << ": " << tests::text(c) << " " << patch);
    CHECK_NOTHROW(tests::check_like_one_rank(text, tests::reference_json(c, "fp64"), patch));
    spread += tests::patched(text, patch).parallel.expert > 1;
    if (++checked == 24) break;
  }
  CHECK(checked >= 12);
  CHECK(spread >= 2);
}

TEST_CASE("gradients of adapters of parts are slopes of the loss", "[adapters]") {
  tests::SmallPlan small;
  small.llama = true;
  small.micro_batches = 1;
  small.tensor = GENERATE(1, 2, 4);  // of two key heads
  const auto [targets, matrices] = GENERATE(table<std::string, std::size_t>({{kEach, 28}, {R"(["q", "v"])", 8}, {R"(["k", "up"])", 8}}));
  INFO(small.tensor << " " << targets);
  tests::check_slopes(small.json(), lora(targets, small.tensor == 2 ? R"(, "dropout": 0.4)" : ""), matrices);
}

TEST_CASE("models with adapters of parts give PyTorch's logits, gradients, losses and weights over 20 AdamW steps", "[adapters]") {
  for (const char* name : {"lora/llama_parts", "lora/qwen3_parts"}) tests::check_adapters_against_pytorch(name);
}

TEST_CASE("each part draws dropout masks of its own", "[adapters]") {
  tests::SmallPlan small;
  small.llama = true;
  small.micro_batches = 1;
  // Of 12 tokens none keeps a column with probability 0.9^12 = 0.28. The gradient of A is then 0 in that column.
  const Plan plan = tests::patched(small.json(), lora(R"(["q", "v"])", R"(, "dropout": 0.9)"));
  const exec::RunResult run = tests::train_adapted(plan, lower(plan), 1);
  const auto dropped = [&](const std::string& name) {
    std::vector<bool> columns(24, true);
    for (const exec::GatheredTensor& g : run.gradients.front())
      for (std::size_t i = 0; g.name == name && i < g.values.size(); ++i)
        if (g.values[i] != 0) columns[i % 24] = false;
    return columns;
  };
  const auto of_q = dropped("layer0.qkv.q.lora_a"), of_v = dropped("layer0.qkv.v.lora_a");
  const auto some = [](const std::vector<bool>& columns) { return std::count(columns.begin(), columns.end(), true); };
  CHECK((some(of_q) > 0 && some(of_q) < 24));
  CHECK((some(of_v) > 0 && some(of_v) < 24));
  CHECK(of_q != of_v);
}
