#include "sim/result/replaced_facts.hpp"

#include <algorithm>
#include <span>
#include <variant>

#include "tests/catch.hpp"
#include "tests/plans.hpp"
#include "tests/sim/engine/fakes.hpp"

using namespace tandem;
using namespace tandem::sim;
using tandem::sim::test::FakeCost;
using tandem::sim::test::FakeTopology;
using tandem::tests::SmallPlan;

namespace {

/// A table of everything, or of everything but the softmax of attention.
class Table : public FakeCost {
 public:
  bool softmax = true;
  bool covered(const Op& op, DType) const override { return softmax || !std::holds_alternative<AttentionSoftmax>(op); }
};

constexpr const char* kOfComputations[] = {"cpu.json: matmul.ceiling (placeholder)", "cpu.json: kernel_s", "mine.json: device.vector_flops_per_s",
                                           "cpu-core.json: host_launch_s", "cpu-core.json: memory_bytes_per_s"};
constexpr const char* kOfCommunications[] = {"cpu-host.json: scale_up.hop_latency_s (waking a thread)", "cpu.json: communication.overhead_s"};

bool all_hold(const ReplacedFacts& facts, std::span<const char* const> names) {
  return std::ranges::all_of(names, [&](const char* name) { return facts.hold(name); });
}
bool none_holds(const ReplacedFacts& facts, std::span<const char* const> names) {
  return std::ranges::none_of(names, [&](const char* name) { return facts.hold(name); });
}

}  // namespace

TEST_CASE("a measured table replaces the facts of what it has whole, and never those of memory and utilisation") {
  SmallPlan small;
  small.tensor = 2;
  small.precision = "fp32";
  const Plan plan = small.plan();
  const TaskGraph graph = lower(plan);
  const Mesh mesh = make_mesh(plan);
  tandem::sim::test::Shape two;
  two.devices = 2;
  const FakeTopology topology(two);
  Table table;
  const auto replaced = [&] { return ReplacedFacts(Setup{graph, mesh, topology, table}); };

  CHECK(all_hold(replaced(), kOfComputations));
  CHECK(none_holds(replaced(), kOfCommunications));  // no communication was measured
  table.measured = Duration::picoseconds(7);
  CHECK(all_hold(replaced(), kOfComputations));
  CHECK(all_hold(replaced(), kOfCommunications));
  for (const char* fact : {"cpu-core.json: memory_bytes", "cpu-core.json: peak_flops_per_s (AVX2)", "cpu-core.json: matmulx"})
    CHECK_FALSE(replaced().hold(fact));

  table.fit.compute_slowdown = 0.5;  // collectives then slow computations down by their share of the memory's rate
  CHECK_FALSE(replaced().hold("cpu-core.json: memory_bytes_per_s"));
  CHECK_FALSE(replaced().hold("cpu.json: communication.compute_slowdown"));
  CHECK(replaced().hold("cpu.json: memory_share"));

  table.softmax = false;  // one kind is left to the roofline
  CHECK(none_holds(replaced(), kOfComputations));
}

TEST_CASE("NCCL's reductions and gathers have its own latencies, and only sends and all-to-alls read that of a hop") {
  // NVIDIA/nccl, src/graph/tuning.cc: base and hop latencies by algorithm and protocol
  const auto unread = [](std::int64_t pipeline, bool nccl, std::optional<Algorithm> algorithm = {}) {
    SmallPlan small;
    small.tensor = 2;
    small.pipeline = pipeline;
    const Plan plan = small.plan();
    const TaskGraph graph = lower(plan);
    const Mesh mesh = make_mesh(plan);
    tandem::sim::test::Shape shape;
    shape.devices = 2 * pipeline;
    shape.algorithm = algorithm;
    const FakeTopology topology(shape);
    FakeCost cost;
    if (nccl) cost.fit.nccl = NcclArchitecture::hopper;
    const ReplacedFacts replaced(Setup{graph, mesh, topology, cost});
    CHECK_FALSE(replaced.hold("dgx.json: scale_up.device_bytes_per_s"));
    return replaced.hold("dgx.json: scale_up.hop_latency_s (placeholder)");
  };
  CHECK(unread(1, true));
  CHECK_FALSE(unread(2, true));  // stages send
  CHECK_FALSE(unread(1, false));
  CHECK_FALSE(unread(1, true, Algorithm::direct));  // of the plan, not NCCL's
}
