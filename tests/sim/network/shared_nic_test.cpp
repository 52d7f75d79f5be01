// Groups of nodes whose devices share NICs.

#include "sim/engine/simulate_step.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/graphs.hpp"
#include "tests/topology/clusters.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

/// How much longer a large all-reduce over these groups takes when shared NICs are half used.
double slowed(const ClusterSpec& spec, Group group, std::int64_t tensor) {
  const auto topology = make_topology(spec);
  GraphBuilder graph(1);
  graph.add(0, graph.one("collective", Stream::data, Collective{CollectiveKind::all_reduce, group, 1 << 28, DType::fp32, Reduce::sum}));
  const TaskGraph g = graph.take();
  const Mesh m = mesh(tensor, topology->devices() / tensor, 1);
  FakeCost whole, half;
  half.fit.shared_nic_share = 0.5;
  return simulate_step({g, m, *topology, half}).step_time.seconds() / simulate_step({g, m, *topology, whole}).step_time.seconds();
}

/// The same over the data ranks of four DGX A100, with NICs of 25 GB/s.
double slowed(std::int64_t tensor, std::int64_t nics_a_node) {
  ClusterSpec spec = cluster("dgx-a100-80gb", 32);
  spec.override.scale_out_per_node = Bandwidth::bytes_per_second(25e9 * static_cast<double>(nics_a_node));
  REQUIRE(make_topology(spec)->devices_per_nic() == 8 / nics_a_node);
  return slowed(spec, Group::data, tensor);
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

TEST_CASE("a group that has one device of its first node and several of the next shares NICs as one that lies the other way round") {
  for (const std::int64_t devices_a_node : {5, 7}) {  // the second tensor group is 4 | 5 6 7, or 4 5 6 | 7
    ClusterSpec spec = cluster("dgx-a100-80gb", 8);
    spec.override.devices_per_node = devices_a_node;
    spec.override.scale_out_per_node = Bandwidth::bytes_per_second(25e9);
    CHECK(slowed(spec, Group::tensor, 4) == Approx(2).epsilon(0.02));
  }
}
