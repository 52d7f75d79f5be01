// A loss in chunks against the loss of all tokens at once: the same sums in another order.

#include <cmath>

#include "exec/run/run.hpp"
#include "tests/backends.hpp"
#include "tests/catch.hpp"
#include "tests/exec/cpu/numbers.hpp"
#include "tests/exec/run/gathered.hpp"
#include "tests/patched_plan.hpp"

using namespace tandem;
using namespace tandem::exec;
using test::Numbers;
using tests::patched_plan;
using tests::SmallPlan;
using tests::worst;

namespace {

RunResult trained(Plan plan, std::int64_t chunks) {
  plan.training.loss_chunks = chunks;
  RunOptions o = tests::run_options();
  o.steps = 2;
  o.gather_gradients = o.gather_weights = true;
  GraphCache graphs(plan);
  return run(graphs, Numbers(), o);
}

}  // namespace

TEST_CASE("A loss in chunks trains as a loss of all tokens at once") {
  struct Layout {
    int tensor, pipeline, data;
    const char* patch;
  };
  const auto l = GENERATE(values<Layout>({
      {1, 1, 1, "{}"},
      {1, 1, 1, R"({"model": {"tie_embeddings": false, "logit_soft_cap": 3}})"},
      {1, 2, 1, R"({"parallel": {"schedule": "gpipe"}})"},
      {1, 2, 1, R"({"parallel": {"schedule": "zb-h1"}})"},
      {1, 2, 1, R"({"parallel": {"virtual_pipeline": 2, "schedule": "interleaved"}})"},
      {2, 1, 2, R"({"parallel": {"sequence_parallel": true}})"},
      {2, 1, 1, R"({"training": {"fusion": "eager"}})"},
      {1, 1, 2, R"({"parallel": {"zero_stage": 1, "overlap_param_gather": true}})"},
      {1, 1, 2, R"({"parallel": {"zero_stage": 2}})"},
      {1, 2, 2, R"({"parallel": {"zero_stage": 3}})"},
      {1, 1, 2, R"({"training": {"lora": {"rank": 2}}})"},
  }));
  SmallPlan p;
  p.tensor = l.tensor, p.pipeline = l.pipeline, p.data = l.data;
  p.micro_batches = 2;
  const Plan plan = patched_plan(p, l.patch);
  const RunResult whole = trained(plan, 1);
  for (const std::int64_t chunks : {2, 4}) {
    INFO(l.tensor << " " << l.pipeline << " " << l.data << " " << l.patch << ", " << chunks << " chunks");
    const RunResult parts = trained(plan, chunks);
    // In fp64, sums of hundreds of terms in another order differ by far less than 1e-12 of them.
    for (std::size_t s = 0; s < whole.steps.size(); ++s) {
      CHECK(std::abs(whole.steps[s].loss - parts.steps[s].loss) <= 1e-12 * whole.steps[s].loss);
      CHECK(worst(whole.gradients[s], parts.gradients[s]) <= 1e-12);
    }
    CHECK(worst(whole.weights, parts.weights) <= 1e-12);
  }
}
