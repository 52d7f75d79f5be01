// Collectives that run in pieces beside their products, as frameworks do it.

#include "sim/result/simulate.hpp"

#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"
#include "topology/topology.hpp"

using namespace tandem;

namespace {

/// Seconds of a step of LLaMA-3 70B on 64 H100, eight of them tensor ranks.
double step(const std::string& stack, bool overlap) {
  const Plan plan = parse_plan(R"({"stack": ")" + stack + R"(", "model": {"preset": "llama3-70b"},
      "parallel": {"tensor": 8, "data": 8, "zero_stage": 3, "sequence_parallel": true, "tensor_overlap": )" + (overlap ? "true" : "false") + R"(},
      "training": {"seq_length": 8192, "micro_batch_size": 8, "global_batch_size": 64, "recompute": "full", "fusion": "compiled-blocks"},
      "cluster": {"preset": "dgx-h100", "devices": 64}})", "pieces.json");
  return sim::simulate(plan, lower(plan), *make_topology(plan.cluster), {}).step_time.seconds();
}

}  // namespace

TEST_CASE("PyTorch's asynchronous tensor parallelism makes a step up to 8 % faster") {
  const double gain = step("torchtitan", false) / step("torchtitan", true);
  CHECK(gain > 1.06);  // discuss.pytorch.org 209487: up to 8 % of LLaMA-3 70B
  CHECK(gain < 1.10);
}
