// Two levels of context ranks: exchanges of heads inside nodes, rings across them.

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/graph/task_graph.hpp"
#include "sim/closed_form/closed_form.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/result/simulate.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"
#include "topology/topology.hpp"

using namespace tandem;
using namespace tandem::sim;
using nlohmann::json;

namespace {

/// Long sequences over two nodes of eight devices.
Plan plan_of(const std::string& mode, int ulysses) {
  const json plan = {{"model", {{"family", "llama"}, {"num_layers", 4}, {"hidden_size", 4096}, {"num_attention_heads", 32}, {"num_kv_heads", 8},
                                {"ffn_hidden_size", 14336}, {"vocab_size", 32000}}},
                     {"parallel", {{"context", 16}, {"context_mode", mode}, {"ulysses", ulysses}, {"zero_stage", 1}}},
                     {"training", {{"seq_length", 65536}, {"micro_batch_size", 1}, {"global_batch_size", 4}, {"recompute", "full"}}},
                     {"cluster", {{"preset", "dgx-h100"}, {"devices", 16}}},
                     {"stack", "megatron-core"}};
  return parse_plan(plan.dump(), "levels.json");
}

struct Step {
  double seconds, memory;
};

/// The simulated step, which the estimate must meet.
Step step_of(const Plan& plan) {
  const auto topology = make_topology(plan.cluster);
  const Prediction p = simulate(plan, lower(plan), *topology);
  const Step step{p.step_time.seconds(), static_cast<double>(p.roles[p.heaviest_role].needed_bytes.count())};
  const auto cost = make_cost_model(*topology);
  const Estimate e = ClosedForm(*topology, *cost).estimate(plan);
  CHECK(std::abs(e.step_time.seconds() / step.seconds - 1) < 0.01);
  CHECK(std::abs(static_cast<double>(e.memory.count()) / step.memory - 1) < 0.03);  // recurrences with room to spare
  return step;
}

}  // namespace

TEST_CASE("the closed form covers two levels of context ranks, which are faster across nodes than either level alone") {
  const Step ring = step_of(plan_of("ring", 1)), levels = step_of(plan_of("ring", 8)), heads = step_of(plan_of("ulysses", 1));
  CHECK(levels.seconds < heads.seconds);
  CHECK(heads.seconds < ring.seconds);
  CHECK(step_of(plan_of("ring", 2)).seconds < ring.seconds);
  CHECK(step_of(plan_of("ring", 16)).seconds == heads.seconds);
}
