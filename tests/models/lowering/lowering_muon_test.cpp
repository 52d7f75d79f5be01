// Muon's update against closed forms written here from the model's arithmetic.

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "models/graph/stage_flops.hpp"
#include "models/graph/task_graph.hpp"
#include "tests/catch.hpp"
#include "tests/plans.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;

namespace {

constexpr std::int64_t kAligned = 256;  ///< bytes: where tensors of an arena begin

struct Matrix {
  std::int64_t count, rows, cols;
};

std::int64_t elements(const std::vector<Matrix>& all) {
  std::int64_t n = 0;
  for (const Matrix& m : all) n += m.count * m.rows * m.cols;
  return n;
}

/// A step makes X X^T, A A and a product of [m, m] with X, of 2 FLOPs for each multiply-add.
std::int64_t flops(const std::vector<Matrix>& all, std::int64_t steps) {
  std::int64_t n = 0;
  for (const Matrix& x : all) {
    const std::int64_t m = std::min(x.rows, x.cols), k = std::max(x.rows, x.cols);
    n += x.count * steps * (2 * m * m * k + 2 * m * m * m + 2 * m * m * k);
  }
  return n;
}

std::string plan_text(int tensor, int stages, const std::string& optimizer) {
  return R"({"model": {"family": "llama", "num_layers": 4, "hidden_size": 24, "num_attention_heads": 6, "num_kv_heads": 2,
                       "ffn_hidden_size": 40, "vocab_size": 64, "pad_vocab_to": 16,
                       "moe": {"num_experts": 3, "experts_per_token": 2, "ffn_hidden_size": 16, "layer_frequency": 2}},
             "parallel": {"tensor": )" + std::to_string(tensor) + R"(, "pipeline": )" + std::to_string(stages) + R"(},
             "training": {"seq_length": 8, "micro_batch_size": 1, "global_batch_size": 2, "precision": "fp32",
                          "optimizer": ")" + optimizer + R"("},
             "cluster": {"preset": "cpu-host", "devices": )" + std::to_string(tensor * stages) + "}}";
}

/// Of a rank's layers: half of them have experts in place of an MLP.
std::vector<Matrix> matrices(int tensor, int stages) {
  const std::int64_t t = tensor, layers = 4 / stages, half = layers / 2, h = 24, dim = 4;
  return {{layers, 6 * dim / t, h}, {2 * layers, 2 * dim / t, h}, {layers, h, 6 * dim / t},
          {half, 2 * 40 / t, h},    {half, h, 40 / t},
          {half, 3, h},             {half * 3, 2 * 16 / t, h},    {half * 3, h, 16 / t}};
}

std::int64_t update_flops(const TaskGraph& graph, const Program& program) {
  std::int64_t n = 0;
  for (const Instance& i : program.instances)
    if (graph.of(i).name == "optimizer")
      for (const Task& task : graph.of(i).tasks) n += matrix_flops(task.op).count();
  return n;
}

std::int64_t bytes_of_state(const Program& program, std::string_view name) {
  std::int64_t n = 0;
  for (const Allocation& a : program.memory.allocations)
    if (a.name == name) n += a.bytes.count();
  return n;
}

}  // namespace

TEST_CASE("Muon multiplies each matrix of a layer, expert or router, queries, keys and values apart, and nothing else") {
  const int tensor = GENERATE(1, 2), stages = GENERATE(1, 2);
  const TaskGraph muon = lower(parse_plan(plan_text(tensor, stages, "muon"), "")), adamw = lower(parse_plan(plan_text(tensor, stages, "adamw"), ""));
  muon.check();
  for (std::size_t s = 0; s < muon.programs.size(); ++s) {
    CHECK(update_flops(muon, muon.programs[s]) == flops(matrices(tensor, stages), 5));
    CHECK(update_flops(adamw, adamw.programs[s]) == 0);
    CHECK(model_flops_of_step(muon, 1) == model_flops_of_step(adamw, 1));
    CHECK(bytes_of_state(muon.programs[s], "exp_avg") == bytes_of_state(adamw.programs[s], "exp_avg"));
    const std::int64_t rest = bytes_of_state(adamw.programs[s], "exp_avg_sq") - 4 * elements(matrices(tensor, stages));
    CHECK(bytes_of_state(muon.programs[s], "exp_avg_sq") == (rest + kAligned - 1) / kAligned * kAligned);
  }
}

TEST_CASE("Muon has a momentum of 0.95, keeps whole matrices and refuses by name what would cut them") {
  const Plan plan = parse_plan(plan_text(1, 2, "muon"), "");
  CHECK(plan.training.optimizer.momentum == 0.95);
  CHECK(plan.training.optimizer.muon.scale == 0.2);
  const auto refused = [](const char* patch) {
    nlohmann::json json = nlohmann::json::parse(plan_text(1, 2, "muon"));
    json.merge_patch(nlohmann::json::parse(patch));
    try {
      require_lowerable(parse_plan(json.dump(), ""));
    } catch (const InfeasibleError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(refused("{}").empty());
  CHECK(refused(R"({"parallel": {"data": 2, "zero_stage": 1}, "cluster": {"devices": 4}})").empty());
  for (const char* stage : {"2", "3"}) {
    const std::string zero = refused((R"({"parallel": {"data": 2, "zero_stage": )" + std::string(stage) + R"(}, "cluster": {"devices": 4}})").c_str());
    CHECK(zero.find("training.optimizer") != std::string::npos);
    CHECK(zero.find("parallel.zero_stage 0 or 1") != std::string::npos);
  }
  CHECK(refused(R"({"training": {"lora": {"rank": 2}}})").find("training.lora.rank 0") != std::string::npos);
  CHECK(refused(R"({"training": {"muon": {"scale_mode": "shape"}}, "model": {"mtp": {"num_layers": 1}}})").find("scale_mode") != std::string::npos);
  CHECK(refused(R"({"training": {"muon": {"scale_mode": "shape"}}})").empty());
}
