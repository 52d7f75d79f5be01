// Scratch memory that the CUDA backend's kernels take for recurrences, beside what a simulation predicts of it.

#include <memory>
#include <string>

#include "exec/run/run.hpp"
#include "models/graph/task_graph.hpp"
#include "sim/memory/workspaces.hpp"
#include "sim/result/simulate.hpp"
#include "tests/agree/features.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/catch.hpp"
#include "tests/emulated/emulated_backend.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;

namespace {

Plan plan_of(const std::string& recurrence, const std::string& precision, const std::string& preset) {
  return parse_plan(tests::small_json({R"({"model": {"family": "llama", "recurrence": )" + recurrence + "}}",
                                       R"({"training": {"seq_length": 150, "precision": ")" + precision + R"("}})",
                                       R"({"stack": "tandem", "cluster": {"preset": ")" + preset + R"("}})"},
                                      2),
                    "scratch.json");
}

/// Runtime memory of the rank that is predicted, without what its device's preset says of any process.
std::int64_t predicted_scratch(const Plan& plan) {
  const auto topology = make_topology(plan.cluster);
  const Prediction p = sim::simulate(plan, lower(plan), *topology);
  const Bytes runtime = p.roles.front().memory_bytes[static_cast<std::size_t>(MemoryKind::runtime)];
  return (runtime - topology->device().runtime_memory - sim::library_memory(plan, topology->device())).count();
}

}  // namespace

TEST_CASE("a prediction has the scratch memory that the kernels of recurrences take") {
  const std::string shape = R"("heads": 8, "key_heads": 4, "key_dim": 16, "value_dim": 24, "layers": "ra")";
  for (const std::string rule : {"gated_delta", "mamba2"})
    for (const std::string precision : {"fp32", "bf16"}) {
      INFO(rule << " in " << precision);
      const std::string recurrence = R"({"rule": ")" + rule + "\", " + shape + "}";
      const Plan plan = plan_of(recurrence, precision, "cpu-host");
      exec::RunOptions options;
      options.steps = 1;
      options.make_backend = [](Rank) { return tests::make_emulated_backend(); };
      const exec::RunResult run = exec::run(plan, lower(plan), tests::HashTokens(plan.model.vocab_size), options);
      REQUIRE(run.ranks.size() == 1);
      CHECK(run.ranks.front().backend.workspace_bytes > 1'000'000);
      CHECK(predicted_scratch(plan_of(recurrence, precision, "dgx-h100")) == run.ranks.front().backend.workspace_bytes);
      CHECK(predicted_scratch(plan_of(recurrence, precision, "mi300x-8x400g")) == 0);
      if (precision == "fp32") CHECK(predicted_scratch(plan) == 0);  // the preset of processors has no rate of bf16
    }
  CHECK(predicted_scratch(plan_of(R"({"heads": 0})", "bf16", "dgx-h100")) == 0);
}
