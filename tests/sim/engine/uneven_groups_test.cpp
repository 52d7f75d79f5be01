// Groups that have not as many ranks on every node: no library's rate jumps between them and their even neighbours.

#include <string>

#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "sim/result/simulate.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"
#include "topology/topology.hpp"

using namespace tandem;

namespace {

/// Seconds of a step whose gradients are summed over so many devices at its end, one sequence each.
double step_of(const std::string& cluster, int devices) {
  const std::string n = std::to_string(devices);
  const Plan plan = parse_plan(
      R"({"model": {"family": "llama", "num_layers": 8, "hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 32000},
          "parallel": {"data": )" + n + R"(},
          "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": )" + n + R"(},
          "cluster": {"preset": ")" + cluster + R"(", "devices": )" + n + "}}",
      "uneven.json");
  return sim::simulate(plan, lower(plan), *make_topology(plan.cluster)).step_time.seconds();
}

}  // namespace

TEST_CASE("groups of unlike nodes have the ways between nodes that the smallest has, and no more") {
  const std::string cluster = GENERATE("dgx-h100", "dgx-a100-80gb");
  const double one_node = step_of(cluster, 8), twelve = step_of(cluster, 12), fifteen = step_of(cluster, 15),
               even = step_of(cluster, 16);
  CHECK(fifteen > one_node);
  CHECK(fifteen == Approx(even).epsilon(0.06));  // seven ways of eight
  CHECK(twelve > even);                          // four of eight
  CHECK(twelve < 1.5 * even);
  CHECK(step_of(cluster, 9) > twelve);  // one way
}
