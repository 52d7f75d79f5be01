// The TFLOP/s column of the BLOOM-176B benchmarks as an exact test of the FLOP count: see experiments/corpus/README.md.

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/source_dir.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;

namespace {

/// Counted over published TFLOP/s, less 1.
double deviation(nlohmann::json record) {
  record["plan"]["parallel"]["zero_stage"] = 0;  // sharding moves no matrix product
  const Plan plan = parse_plan(record["plan"].dump(), record["id"]);
  const TaskGraph graph = lower(plan);
  double flops = 0;
  for (const Program& p : graph.programs)
    flops += static_cast<double>(count(graph, p.stage).matrix.count()) *
             static_cast<double>(plan.parallel.tensor * plan.parallel.data);
  const double seconds = record["measured"]["step_time_s"], published = record["measured"]["tflops_per_device"];
  return flops / static_cast<double>(plan.cluster.devices) / seconds / 1e12 / published - 1;
}

}  // namespace

TEST_CASE("matrix FLOPs reproduce the published TFLOP/s of the BLOOM benchmarks") {
  std::ifstream file(tests::source_dir() + "/experiments/corpus/bloom.jsonl");
  int records = 0, within = 0, early = 0;
  for (std::string line; std::getline(file, line); ++records) {
    const double d = deviation(nlohmann::json::parse(line));
    within += std::abs(d) < 0.005;
    early += d > 0.0365 && d < 0.0395;  // 3.7 to 3.9 %, rounded
  }
  CHECK(records == 48);
  CHECK(within == 43);
  CHECK(early == 5);
}
