// Groups of nodes whose devices share NICs.

#include "sim/engine/simulate_step.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/graphs.hpp"
#include "tests/topology/clusters.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

/// How much longer a large all-reduce over the data ranks of four DGX A100 takes when shared NICs are half used. NICs of 25 GB/s.
double slowed(std::int64_t tensor, std::int64_t nics_a_node) {
  ClusterSpec spec = cluster("dgx-a100-80gb", 32);
  spec.override.scale_out_per_node = Bandwidth::bytes_per_second(25e9 * static_cast<double>(nics_a_node));
  const auto topology = make_topology(spec);
  REQUIRE(topology->devices_per_nic() == 8 / nics_a_node);
  GraphBuilder graph(1);
  graph.add(0, graph.one("collective", Stream::data, Collective{CollectiveKind::all_reduce, Group::data, 1 << 28, DType::fp32, Reduce::sum}));
  const TaskGraph g = graph.take();
  const Mesh m = mesh(tensor, 32 / tensor, 1);
  FakeCost whole, half;
  half.fit.shared_nic_share = 0.5;
  return simulate_step({g, m, *topology, half}).step_time.seconds() / simulate_step({g, m, *topology, whole}).step_time.seconds();
}

}  // namespace

TEST_CASE("a calibrated share of NICs is what some of a node's devices reach, where devices share NICs") {
  CHECK(slowed(4, 8) == 1);                        // a NIC each
  CHECK(slowed(4, 4) == Approx(2).epsilon(0.02));  // two of a node's devices in each group
  CHECK(slowed(2, 4) == Approx(2).epsilon(0.02));
  CHECK(slowed(1, 4) == 1);                        // all of them
  CHECK(slowed(1, 2) == 1);
  CHECK(slowed(8, 4) == 1);                        // one of a node each
  CHECK(slowed(8, 2) == 1);
}
