#pragma once
// Plans with low-rank adapters whose B does not begin at 0, and their judgement: like one rank, as simulated, slopes of the loss.

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "exec/state/initialise.hpp"
#include "tests/agree/closeness.hpp"
#include "tests/agree/covering.hpp"
#include "tests/agree/fixture.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/agree/ledger.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::tests {

inline bool is_adapter(const std::string& name) { return name.ends_with(".lora_a") || name.ends_with(".lora_b"); }

/// B begins at 0, and then the gradient of A is 0. Here it begins at other numbers.
inline void draw_b(const std::string& name, std::vector<double>& full) {
  if (!name.ends_with(".lora_b")) return;
  for (std::size_t i = 0; i < full.size(); ++i) full[i] = 0.05 * std::sin(static_cast<double>(3 * i + name.size()) + 0.7);
}

inline exec::RunOptions adapted_options(std::int64_t steps) {
  exec::RunOptions options = run_options();
  options.steps = steps;
  options.gather_gradients = options.gather_weights = true;
  options.initialise = draw_b;
  return options;
}

inline exec::RunResult train_adapted(const Plan& plan, const TaskGraph& graph, std::int64_t steps) {
  return exec::run(plan, graph, HashTokens(plan.model.vocab_size), adapted_options(steps));
}

inline Plan patched(const std::string& text, const std::string& patch) {
  nlohmann::json plan = nlohmann::json::parse(text);
  plan.merge_patch(nlohmann::json::parse(patch));
  return parse_plan(plan.dump(), "adapters");
}

/// Trains a plan with and without its layout, and compares the books.
inline void check_like_one_rank(const std::string& plan_text, const std::string& reference_text, const std::string& patch) {
  static std::map<std::string, exec::RunResult> known;
  const Plan plan = patched(plan_text, patch), reference = patched(reference_text, patch);
  const TaskGraph graph = lower(plan);
  CHECK_NOTHROW(graph.check());
  const exec::RunResult run = train_adapted(plan, graph, 2);
  const std::string key = to_json(reference);
  if (!known.contains(key)) known[key] = train_adapted(reference, lower(reference), 2);
  CHECK(loss_error(run, known[key]) <= 1e-12);
  CHECK(gradient_error(run, known[key]) <= 1e-12);
  for (const exec::GatheredTensor& g : run.gradients.front()) CHECK(is_adapter(g.name));
  check_same_books(plan, executed_ledgers(run), simulated_ledgers(plan, graph, 2));
}

inline bool lowers(const std::string& text, const std::string& patch) {
  try {
    require_lowerable(patched(text, patch));
  } catch (const InfeasibleError&) {
    return false;
  }
  return true;
}

/// Whether the targets name some matrix of the model.
inline bool names_some(const std::string& text, const std::string& patch) {
  try {
    patched(text, patch);
  } catch (const ConfigError&) {
    return false;
  }
  return true;
}

/// Compares gradients with central differences of the loss, at three places of each of `parameters` adapters' matrices.
inline void check_slopes(const std::string& text, const std::string& lora, std::size_t parameters) {
  nlohmann::json patch = nlohmann::json::parse(R"({"model": {"num_layers": 2}, "training": {"dropout": {"hidden": 0, "attention": 0}}})");
  patch.merge_patch(nlohmann::json::parse(lora));
  const Plan plan = patched(text, patch.dump());
  const TaskGraph graph = lower(plan);
  const auto loss = [&](const std::string& moved, std::size_t at, double by) {
    exec::RunOptions options = adapted_options(1);
    options.gather_gradients = options.gather_weights = false;
    options.initialise = [&](const std::string& name, std::vector<double>& full) {
      draw_b(name, full);
      if (name == moved) full.at(at) += by;
    };
    return exec::run(plan, graph, HashTokens(plan.model.vocab_size), options).steps.front().loss;
  };
  const exec::RunResult run = train_adapted(plan, graph, 1);
  REQUIRE(run.gradients.front().size() == parameters);
  constexpr double kStep = 1e-5;
  for (const exec::GatheredTensor& g : run.gradients.front())
    for (const std::size_t at : {std::size_t{0}, g.values.size() / 2, g.values.size() - 1}) {
      INFO(g.name << " " << at);
      const double slope = (loss(g.name, at, kStep) - loss(g.name, at, -kStep)) / (2 * kStep);
      CHECK(std::abs(slope - g.values[at]) < 1e-9);
    }
}

/// A fixture of adapters under five layouts in fp64, and on one rank in fp32.
inline void check_adapters_against_pytorch(const std::string& name) {
  const nlohmann::json f = read_fixture(name);
  const FixtureData data(f);
  const FixtureLayout layouts[] = {{}, spread(1, 2, 1, 0), spread(2, 1, 1, 0), spread(1, 1, 2, 3), spread(2, 2, 2, 2)};
  for (const FixtureLayout& l : layouts) check_against_pytorch(name, l, data, 1e-9);
  FixtureLayout single;
  single.precision = "fp32";
  check_against_pytorch(name, single, data, 1e-4);
}

}  // namespace tandem::tests
