// Dropless experts on several ranks: how many rows a rank gets is known only when tokens have chosen. The graph plans an even
// share of products and a bound of room; the runtime follows the real numbers and says when the room is too small.

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/agree/layouts.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

constexpr int kMicroBatches = 8, kMicroBatch = 2;

struct Layout {
  int tensor = 1, pipeline = 1, data = 1, expert = 1, zero_stage = 0;
  double rows_bound = 4;
  std::string schedule = "1f1b";
};

Plan plan_of(const Layout& l) {
  const json moe = {{"num_experts", 4}, {"experts_per_token", 2}, {"ffn_hidden_size", 16}, {"layer_frequency", 2},
                    {"aux_loss", 0.01}, {"rows_bound", l.rows_bound}};
  const json plan = {
      {"model",
       {{"family", "llama"}, {"num_layers", 4}, {"hidden_size", 24}, {"num_attention_heads", 4}, {"num_kv_heads", 2},
        {"ffn_hidden_size", 40}, {"vocab_size", 37}, {"pad_vocab_to", 16}, {"moe", moe}}},
      {"parallel",
       {{"tensor", l.tensor}, {"pipeline", l.pipeline}, {"data", l.data}, {"expert", l.expert}, {"zero_stage", l.zero_stage},
        {"sequence_parallel", l.tensor > 1}, {"schedule", l.schedule}}},
      {"training",
       {{"seq_length", 8}, {"micro_batch_size", kMicroBatch}, {"global_batch_size", kMicroBatches * kMicroBatch},
        {"precision", "fp64"}, {"dropout", {{"hidden", 0.1}, {"attention", 0.1}}}, {"clip_grad", 0.5}}},
      {"cluster", {{"preset", "cpu-host"}, {"devices", l.tensor * l.pipeline * l.data}}}};
  return parse_plan(plan.dump(), "dropless.json");
}

exec::RunResult run(const Plan& plan) {
  const TaskGraph graph = lower(plan);
  graph.check();
  exec::RunOptions options;
  options.steps = 2;
  options.gather_gradients = options.gather_weights = true;
  return exec::run(plan, graph, tests::HashTokens(plan.model.vocab_size), options);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]), norm += b[i] * b[i];
  return std::sqrt(sum) / std::max(std::sqrt(norm), 1e-4);
}

}  // namespace

TEST_CASE("dropless experts on several ranks train like one rank") {
  const exec::RunResult one = run(plan_of({}));
  for (const Layout& l : {Layout{1, 1, 2, 2, 0}, Layout{1, 1, 4, 4, 3}, Layout{2, 2, 2, 2, 1, 4, "zb-h1"}, Layout{2, 1, 4, 2, 2}}) {
    INFO("tp" << l.tensor << " pp" << l.pipeline << " dp" << l.data << " ep" << l.expert << " zero " << l.zero_stage);
    const exec::RunResult many = run(plan_of(l));
    for (std::size_t s = 0; s < one.steps.size(); ++s) {
      CHECK(std::abs(many.steps[s].loss / one.steps[s].loss - 1) <= 1e-12);
      for (std::size_t t = 0; t < one.gradients[s].size(); ++t) {
        INFO(one.gradients[s][t].name);
        CHECK(distance(many.gradients[s][t].values, one.gradients[s][t].values) <= 1e-12);
      }
    }
  }
}

TEST_CASE("what the experts of all ranks multiply together is what was planned for them") {
  const Plan plan = plan_of({1, 1, 4, 4, 0});
  const TaskGraph graph = lower(plan);
  const exec::RunResult result = exec::run(plan, graph, tests::HashTokens(plan.model.vocab_size), {});
  std::int64_t done = 0, uneven = 0;
  for (const exec::RankBooks& b : result.ranks) {
    done += b.backend.gemm_flops;
    uneven += b.backend.gemm_flops != result.ranks.front().backend.gemm_flops;
  }
  CHECK(uneven > 0);  // else the test would not see unequal numbers at all
  CHECK(done == 4 * count(graph, StageId(0)).matrix.count());
}

TEST_CASE("more rows than planned for are an error that names the bound") {
  const Plan plan = plan_of({1, 1, 2, 2, 0, 1.0});
  std::string message;
  try {
    run(plan);
  } catch (const DeviceError& e) {
    message = e.what();
  }
  CHECK(message.find("raise model.moe.rows_bound") != std::string::npos);
}
