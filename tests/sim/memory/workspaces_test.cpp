#include "sim/memory/workspaces.hpp"

#include "tests/catch.hpp"
#include "tests/plans.hpp"

using namespace tandem;

TEST_CASE("a run that gives the same bits has workspaces of 32 MiB for each of two threads, on every device with cuBLAS") {
  Plan plan = tests::SmallPlan().plan();
  const auto of = [&](const std::string& preset, bool deterministic) {
    ClusterSpec cluster = plan.cluster;
    cluster.preset = preset;
    plan.training.deterministic = deterministic;
    return sim::library_memory(plan, make_topology(cluster)->device()).count();
  };
  CHECK(of("dgx-a100-80gb", false) == 2 * (2 * 4096 + 8 * 16) * 1024);  // :4096:2:16:8
  CHECK(of("dgx-a100-80gb", true) == 64 << 20);
  CHECK(of("dgx-h100", false) == 64 << 20);
  CHECK(of("dgx-h100", true) == 64 << 20);
  CHECK(of("cpu-host", true) == 0);
}
