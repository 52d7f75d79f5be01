// Simulates a plan with the installed package: every header, library and preset that this needs must have been installed.
#include <cstdio>

#include "exec/cpu/backend.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "sim/result/simulate.hpp"
#include "topology/plan_reader.hpp"
#include "topology/topology.hpp"

namespace {

constexpr const char* kPlan = R"({
  "model": {"family": "gpt", "num_layers": 4, "hidden_size": 1024, "num_attention_heads": 16, "vocab_size": 51200},
  "parallel": {"tensor": 2, "pipeline": 2, "data": 2},
  "training": {"seq_length": 512, "micro_batch_size": 1, "global_batch_size": 8},
  "cluster": {"preset": "dgx-a100-80gb", "devices": 8}
})";

}  // namespace

int main() {
  const tandem::Plan plan = tandem::parse_plan(kPlan, "consumer");
  const tandem::TaskGraph graph = tandem::lower(plan);
  const auto topology = tandem::make_topology(plan.cluster);
  const tandem::Prediction prediction = tandem::sim::simulate(plan, graph, *topology);
  const auto backend = tandem::exec::make_cpu_backend();
  const bool ran = backend->supports(tandem::MatMul{2, 2, 2}, {tandem::DType::fp32, {}, {}}).possible;
  std::printf("step time %.6f s, %s\n", prediction.step_time.seconds(), ran ? "with a CPU backend" : "without");
  return prediction.step_time.ps() > 0 && ran ? 0 : 1;
}
