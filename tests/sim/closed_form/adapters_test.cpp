// Plans with adapters: memory that frozen weights leave, and estimates against the event simulation.

#include <algorithm>
#include <cmath>
#include <string>

#include "models/graph/task_graph.hpp"
#include "models/plan/plan_traits.hpp"
#include "sim/result/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/sim/closed_form/estimated_cluster.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

const std::string kAttention = R"("lora": {"rank": 16, "alpha": 32, "targets": ["qkv", "proj"]})", kAll = R"("lora": {"rank": 16})";

/// `training` beside a batch of 16 sequences.
Plan plan_of(const std::string& model, const std::string& parallel, const std::string& training) {
  return parse_plan(R"({"stack": "nemo", "model": {"preset": ")" + model + R"("}, "parallel": {)" + parallel +
                        R"(}, "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 16, "precision": "bf16")" +
                        (training.empty() ? "" : ", " + training) + R"(}, "cluster": {"preset": "dgx-h100", "devices": 8}})",
                    "plan.json");
}

Prediction predicted(const Plan& plan) { return simulate(plan, lower(plan), *make_topology(plan.cluster)); }

double needed(const Prediction& p) {
  Bytes most;
  for (const RolePrediction& r : p.roles) most = std::max(most, r.needed_bytes);
  return static_cast<double>(most.count());
}

}  // namespace

TEST_CASE("LLaMA-2 70B fits on eight devices of 80 GB with adapters, and not where all of it is trained") {
  const std::string eight = R"("tensor": 8, "sequence_parallel": true)";
  const Prediction adapted = predicted(plan_of("llama2-70b", eight, kAttention)), whole = predicted(plan_of("llama2-70b", eight, ""));
  CHECK(adapted.fits);
  CHECK(!whole.fits);
  CHECK(adapted.step_time < whole.step_time);
}

TEST_CASE("frozen weights in 4 bits leave the bytes that they save, and dequantizing them takes the time of its bytes") {
  const std::string eight = R"("tensor": 8, "sequence_parallel": true)";
  const auto based = [&](const std::string& base) {
    return plan_of("llama2-70b", eight, kAttention.substr(0, kAttention.size() - 1) + base + "}");
  };
  const Plan narrow_plan = based(R"(, "base": "nf4")");
  const Prediction wide = predicted(based("")), narrow = predicted(narrow_plan);
  const double matrices = 80.0 * (10240 * 8192 + 8192 * 8192 + 3.0 * 28672 * 8192) / 8;
  const auto weights = [](const Prediction& p) {
    return static_cast<double>(p.roles.front().memory_bytes[static_cast<std::size_t>(MemoryKind::weights)].count());
  };
  CHECK(weights(wide) - weights(narrow) == Approx(matrices * (2 - 36.0 / 64)).epsilon(1e-4));
  // 16 micro-batches, each forward and backward: 36 bytes read and 128 written for 64 elements, at 3.35 TB/s and no more.
  const double bytes = 16 * 2 * matrices * (36 + 128) / 64, more = narrow.step_time.seconds() - wide.step_time.seconds();
  CHECK(more > bytes / 3.35e12);
  CHECK(more < 1.5 * bytes / 3.35e12);
  CHECK(traits_of(narrow_plan).words.back() == "quantized frozen weights");
}

TEST_CASE("estimates of plans with adapters are within 3 % of the events in time and memory") {
  test::EstimatedClusters clusters;
  const auto [model, parallel, training] = GENERATE(table<std::string, std::string, std::string>(
      {{"llama2-70b", R"("tensor": 8, "sequence_parallel": true)", kAttention},
       {"llama2-70b", R"("tensor": 4, "pipeline": 2, "sequence_parallel": true)", kAll},
       {"llama2-7b", R"("data": 8, "zero_stage": 1)", kAll},
       {"llama2-7b", R"("tensor": 2, "data": 4, "sequence_parallel": true)", kAll + R"(, "recompute": "full")"},
       {"llama2-7b", R"("data": 8, "zero_stage": 3)", kAll},
       {"llama2-7b", R"("data": 8, "zero_stage": 1)", R"("lora": {"rank": 16, "base": "nf4"})"},
       {"llama2-70b", R"("tensor": 4, "pipeline": 2, "sequence_parallel": true)", R"("lora": {"rank": 16, "base": "nf4", "double_quantization": true})"},
       {"llama2-7b", R"("pipeline": 2, "schedule": "interleaved", "virtual_pipeline": 4, "tensor": 4, "sequence_parallel": true)", kAll}}));
  INFO(model << " " << parallel << " " << training);
  const Plan plan = plan_of(model, parallel, training);
  const Estimate e = clusters.of(plan).form.estimate(plan);
  CHECK(e.outside == Outside::nothing);
  const Prediction p = predicted(plan);
  CHECK(std::abs(e.step_time.seconds() / p.step_time.seconds() - 1) < 0.03);
  CHECK(std::abs(static_cast<double>(e.memory.count()) / needed(p) - 1) < 0.03);
}
