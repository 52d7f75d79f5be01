// Low-rank adapters beside frozen weights: every layout trains like one rank and does what was simulated; gradients are slopes of the
// loss; frozen weights stay as they are, bit for bit.

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "exec/state/initialise.hpp"
#include "tests/agree/closeness.hpp"
#include "tests/agree/covering.hpp"
#include "tests/agree/fixture.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/agree/ledger.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using exec::RunResult;
using nlohmann::json;

namespace {

constexpr const char* kAll = R"({"training": {"lora": {"rank": 3, "alpha": 6}}})";
constexpr const char* kDropping = R"({"training": {"lora": {"rank": 3, "alpha": 6, "dropout": 0.3}}})";

bool is_adapter(const std::string& name) { return name.ends_with(".lora_a") || name.ends_with(".lora_b"); }

/// B begins at 0, and then the gradient of A is 0. Here it begins at other numbers.
void draw_b(const std::string& name, std::vector<double>& full) {
  if (!name.ends_with(".lora_b")) return;
  for (std::size_t i = 0; i < full.size(); ++i) full[i] = 0.05 * std::sin(static_cast<double>(3 * i + name.size()) + 0.7);
}

exec::RunOptions adapted_options(std::int64_t steps) {
  exec::RunOptions options = tests::run_options();
  options.steps = steps;
  options.gather_gradients = options.gather_weights = true;
  options.initialise = draw_b;
  return options;
}

RunResult train(const Plan& plan, const TaskGraph& graph, std::int64_t steps) {
  return exec::run(plan, graph, tests::HashTokens(plan.model.vocab_size), adapted_options(steps));
}

Plan patched(const std::string& text, const std::string& patch) {
  json plan = json::parse(text);
  plan.merge_patch(json::parse(patch));
  return parse_plan(plan.dump(), "adapters");
}

/// Trains a plan with and without its layout, and compares the books.
void check_like_one_rank(const std::string& plan_text, const std::string& reference_text, const std::string& patch) {
  static std::map<std::string, RunResult> known;
  const Plan plan = patched(plan_text, patch), reference = patched(reference_text, patch);
  const TaskGraph graph = lower(plan);
  CHECK_NOTHROW(graph.check());
  const RunResult run = train(plan, graph, 2);
  const std::string key = to_json(reference);
  if (!known.contains(key)) known[key] = train(reference, lower(reference), 2);
  CHECK(tests::loss_error(run, known[key]) <= 1e-12);
  CHECK(tests::gradient_error(run, known[key]) <= 1e-12);
  for (const exec::GatheredTensor& g : run.gradients.front()) CHECK(is_adapter(g.name));
  tests::check_same_books(plan, tests::executed_ledgers(run), tests::simulated_ledgers(plan, graph, 2));
}

bool lowers(const std::string& text, const std::string& patch) {
  try {
    require_lowerable(patched(text, patch));
  } catch (const InfeasibleError&) {
    return false;
  }
  return true;
}

/// Whether the targets name some matrix of the model.
bool names_some(const std::string& text, const std::string& patch) {
  try {
    patched(text, patch);
  } catch (const ConfigError&) {
    return false;
  }
  return true;
}

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
  for (const char* name : {"lora/gpt", "lora/llama", "lora/qwen3"}) {
    const json f = tests::read_fixture(name);
    const tests::FixtureData data(f);
    const tests::FixtureLayout layouts[] = {{}, tests::spread(1, 2, 1, 0), tests::spread(2, 1, 1, 0), tests::spread(1, 1, 2, 3),
                                            tests::spread(2, 2, 2, 2)};
    for (const tests::FixtureLayout& l : layouts) tests::check_against_pytorch(name, l, data, 1e-9);
    tests::FixtureLayout single;
    single.precision = "fp32";
    tests::check_against_pytorch(name, single, data, 1e-4);
  }
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
  json patch = json::parse(R"({"model": {"num_layers": 2}, "training": {"dropout": {"hidden": 0, "attention": 0}}})");
  patch.merge_patch(json::parse(lora));
  const Plan plan = patched(small.json(), patch.dump());
  const TaskGraph graph = lower(plan);
  const auto loss = [&](const std::string& moved, std::size_t at, double by) {
    exec::RunOptions options = adapted_options(1);
    options.gather_gradients = options.gather_weights = false;
    options.initialise = [&](const std::string& name, std::vector<double>& full) {
      draw_b(name, full);
      if (name == moved) full.at(at) += by;
    };
    return exec::run(plan, graph, tests::HashTokens(plan.model.vocab_size), options).steps.front().loss;
  };
  const RunResult run = train(plan, graph, 1);
  REQUIRE(run.gradients.front().size() == parameters);
  constexpr double kStep = 1e-5;
  for (const exec::GatheredTensor& g : run.gradients.front())
    for (const std::size_t at : {std::size_t{0}, g.values.size() / 2, g.values.size() - 1}) {
      INFO(g.name << " " << at);
      const double slope = (loss(g.name, at, kStep) - loss(g.name, at, -kStep)) / (2 * kStep);
      CHECK(std::abs(slope - g.values[at]) < 1e-9);
    }
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
    const auto one = by_name(train(plan, graph, 1).weights), four = by_name(train(plan, graph, 4).weights);
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
