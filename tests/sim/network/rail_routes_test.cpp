// All-to-alls between nodes on rails, as NCCL sends them since 2.12: over NVLink to the GPU beside the receiver's rail, and out of
// its NIC (PXN; github.com/NVIDIA/nccl, src/graph/search.cc, ncclTopoGetNetDev).

#include "sim/network/rail_routes.hpp"

#include "sim/engine/simulate_step.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/graphs.hpp"
#include "tests/topology/clusters.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

constexpr double kNic = 50e9;                ///< a NIC of dgx-h100, 400 Gb/s
constexpr std::int64_t kElements = 1 << 28;  ///< of fp32: 1 GiB of each rank, so that latencies are below 0.2 %
constexpr double kPiece = kElements * 4.0 / 32;

std::string names(const Topology& t, const std::vector<std::int32_t>& route) {
  std::string out;
  for (const std::int32_t l : route) out += (out.empty() ? "" : ", ") + t.link_name(l);
  return out;
}

/// Seconds of a collective of 32 devices on 4 nodes under one group of leaves, which could hold 32 nodes.
double seconds_of(CollectiveKind kind, double oversubscription, std::optional<NcclArchitecture> library) {
  ClusterSpec spec = cluster("dgx-h100", 32);
  spec.override.oversubscription = oversubscription;
  const auto topology = make_topology(spec);
  GraphBuilder graph(1);
  const Collective op{kind, Group::tensor, kElements, DType::fp32, Reduce::sum};
  graph.add(0, graph.one("exchange", Stream::tensor, op));
  const TaskGraph g = graph.take();
  const Mesh m = mesh(32, 1, 1);
  FakeCost cost;
  cost.fit.nccl = library;
  return simulate_step({g, m, *topology, cost}).step_time.seconds();
}

double exchange(double oversubscription, std::optional<NcclArchitecture> library) {
  return seconds_of(CollectiveKind::all_to_all, oversubscription, library);
}

}  // namespace

TEST_CASE("NCCL sends to another rail over NVLink and the receiver's rail") {
  const auto t = make_topology(cluster("dgx-h100", 16));
  std::vector<Rank> all;
  for (std::int32_t r = 0; r < 16; ++r) all.emplace_back(r);
  const RailRoutes routes(*t, all);
  CHECK(names(*t, routes.route(DeviceId(1), DeviceId(10))) ==
        "node 0: device 1 to switch, node 0: switch to device 2, node 0: device 2 to NIC 2, node 0: NIC 2 to leaf, "
        "node 1: leaf to NIC 2, node 1: NIC 2 to device 2");
  CHECK(routes.route(DeviceId(1), DeviceId(9)) == t->route(DeviceId(1), DeviceId(9)));  // on one rail
  CHECK(routes.route(DeviceId(1), DeviceId(2)) == t->route(DeviceId(1), DeviceId(2)));  // in one node
}

TEST_CASE("NCCL relays only through GPUs of the communicator") {
  const auto t = make_topology(cluster("dgx-h100", 16));
  const RailRoutes two(*t, {Rank(1), Rank(10)});
  CHECK(two.route(DeviceId(1), DeviceId(10)) == t->route(DeviceId(1), DeviceId(10)));
  CHECK(names(*t, two.route(DeviceId(1), DeviceId(10))).find("spine") != std::string::npos);
}

TEST_CASE("without rails every row leaves by the sender's own NIC") {
  const auto t = make_topology(cluster("p5.48xlarge", 16));
  std::vector<Rank> all;
  for (std::int32_t r = 0; r < 16; ++r) all.emplace_back(r);
  CHECK(RailRoutes(*t, all).route(DeviceId(1), DeviceId(10)) == t->route(DeviceId(1), DeviceId(10)));
}

TEST_CASE("under one group of leaves NCCL's all-to-all needs no spine") {
  // Each of 32 ranks sends 24 pieces to other nodes out of a NIC of 50 GB/s. A leaf's cables to the spines carry 32 x 50 GB/s, 50
  // GB/s when they are oversubscribed 32 : 1.
  const double of_nic = 24 * kPiece / kNic;
  CHECK(exchange(1, NcclArchitecture::hopper) == Approx(of_nic).epsilon(0.003));
  CHECK(exchange(32, NcclArchitecture::hopper) == Approx(of_nic).epsilon(0.003));
  // Without PXN 21 of the 24 pieces of each of a leaf's 4 senders go over the spines: RCCL disables it, HCCL has none.
  const double of_spine = 4 * 21 * kPiece / 50e9;
  CHECK(exchange(32, std::nullopt) == Approx(of_spine).epsilon(0.003));
  CHECK(exchange(32, NcclArchitecture::cdna3) == Approx(of_spine).epsilon(0.003));
}

TEST_CASE("under one group of leaves the ring of context ranks needs no spine") {
  // Each node's last rank sends to the next node's first: out of its own NIC, or over NVLink out of that of the node's first rank.
  const double of_nic = kElements * 4.0 / kNic;
  const auto shift = [](double oversubscription, std::optional<NcclArchitecture> library) {
    return seconds_of(CollectiveKind::shift, oversubscription, library);
  };
  CHECK(shift(1, NcclArchitecture::hopper) == Approx(of_nic).epsilon(0.003));
  CHECK(shift(32, NcclArchitecture::hopper) == Approx(of_nic).epsilon(0.003));
  // Without PXN the four nodes' messages share the 50 GB/s from a leaf to the spines.
  CHECK(shift(32, std::nullopt) == Approx(4 * of_nic).epsilon(0.003));
  CHECK(shift(32, NcclArchitecture::cdna3) == Approx(4 * of_nic).epsilon(0.003));
}
