// Rings over a cube mesh against what NCCL reached on one, and against the links there are.
#include "sim/network/mesh_rings.hpp"

#include <map>
#include <set>

#include "sim/engine/simulate_step.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/fakes.hpp"
#include "tests/sim/engine/graphs.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

std::shared_ptr<const Topology> machine(const char* preset, std::int64_t devices) {
  ClusterSpec spec;
  spec.preset = preset;
  spec.devices = devices;
  return make_topology(spec);
}

std::vector<Rank> first(std::int32_t count) {
  std::vector<Rank> out;
  for (std::int32_t i = 0; i < count; ++i) out.push_back(Rank(i));
  return out;
}

/// Cables of 25 GB/s, or others, that every ring would have to itself.
bool fits(const Topology& t, const MeshRings& rings, double cable = 25e9) {
  std::map<std::int32_t, double> crossed;
  for (const std::int32_t l : rings.links) crossed[l] += cable;
  return std::all_of(crossed.begin(), crossed.end(), [&](const auto& c) {
    return c.second <= t.link(c.first).bandwidth.bytes_per_second() + 1;
  });
}

}  // namespace

TEST_CASE("the first GPUs of a DGX-1 have as many rings as NCCL's bus bandwidth says") {
  const auto t = machine("dgx-1v", 8);
  struct Reached {
    std::int32_t gpus;
    double gb_per_s;  // all-reduce of 1 GiB, VIA-Research/vTrain:trace/v100
  };
  const auto r = GENERATE(values<Reached>({{2, 22.6}, {3, 45.1}, {4, 85.4}, {6, 45.7}, {7, 87.0}, {8, 134.5}}));
  const auto rings = mesh_rings(*t, first(r.gpus));
  REQUIRE(rings);
  CHECK(rings->rings == std::llround(r.gb_per_s / 22.5));
  CHECK(rings->links.size() == static_cast<std::size_t>(rings->rings * r.gpus));
  CHECK(fits(*t, *rings));
}

TEST_CASE("four GPUs joined by two links each have six rings") {
  const auto t = machine("jean-zay-v100", 4);
  const auto rings = mesh_rings(*t, first(4));
  REQUIRE(rings);
  CHECK(rings->rings == std::llround(125.0 / 22.5));  // GB/s of an all-reduce of 4 GB: bigscience's n1_16gb_all_reduce_bench
  CHECK(fits(*t, *rings));
  CHECK(std::set<std::int32_t>(rings->links.begin(), rings->links.end()).size() == 12);  // all links of the node
}

TEST_CASE("a GPU that is joined to one other only is reached through that") {
  const auto t = machine("dgx-1v", 8);
  const auto rings = mesh_rings(*t, first(5));
  REQUIRE(rings);
  CHECK(rings->rings == 2);                 // 37 GB/s reached
  CHECK(rings->links.size() == 2 * (5 + 1));
  CHECK(fits(*t, *rings));
  CHECK(rings->hop == 2 * t->link(0).latency);
}

TEST_CASE("no rings where there is no mesh, between nodes or without a way, and fewer where a link is lost") {
  CHECK_FALSE(mesh_rings(*machine("dgx-a100-80gb", 8), first(8)));
  CHECK_FALSE(mesh_rings(*machine("dgx-1v", 16), first(16)));
  const auto t = machine("dgx-1v", 8);
  CHECK_FALSE(mesh_rings(*t, {Rank(0), Rank(6)}));  // no NVLink, and nobody between
  Perturbation p;
  p.lost_links.push_back("node 0: device 0 <-> device 4");
  const auto broken = perturbed(*t, p);
  const auto rings = mesh_rings(*broken, first(8));
  REQUIRE(rings);
  CHECK(rings->rings == 4);
  CHECK(fits(*broken, *rings));
}

TEST_CASE("eight GCDs of a node of Frontier have four rings, on each of two nodes") {
  const auto t = machine("frontier", 16);
  const auto rings = mesh_rings(*t, first(8));
  REQUIRE(rings);
  CHECK(rings->rings == 4);  // 125 GB/s and more are accepted of 4 x 50
  CHECK(fits(*t, *rings, 50e9));
  const auto both = rings_of_nodes(*t, first(16));
  REQUIRE(both);
  CHECK(both->rings == 4);
  CHECK(both->links.size() == 2 * rings->links.size());
  CHECK(fits(*t, *both, 50e9));
  std::set<std::int32_t> second;  // the same rings between the second node's devices
  for (std::int32_t from = 8; from < 16; ++from)
    for (std::int32_t to = 8; to < 16; ++to) {
      if (from == to) continue;
      const auto way = t->route(DeviceId(from), DeviceId(to));
      if (way.size() == 1) second.insert(way[0]);
    }
  CHECK(std::all_of(both->links.begin() + static_cast<std::ptrdiff_t>(rings->links.size()), both->links.end(),
                    [&](std::int32_t l) { return second.contains(l); }));
  CHECK_FALSE(rings_of_nodes(*t, {Rank(0), Rank(8)}));
  CHECK_FALSE(rings_of_nodes(*t, {Rank(0), Rank(1), Rank(8), Rank(10)}));
  CHECK_FALSE(rings_of_nodes(*machine("mi300x-8x400g", 16), first(16)));
}

TEST_CASE("a slow link is a link to the library, whose rings all wait for it") {
  const auto t = machine("dgx-1v", 8);
  const auto members = first(GENERATE(4, 8));
  for (const char* link : {"node 0: device 0 <-> device 1", "node 0: device 2 <-> device 3"}) {  // one cable, and two
    Perturbation p;
    p.slow_links.push_back({link, 0.5});
    const auto slow = perturbed(*t, p);
    const auto plain = mesh_rings(*t, members), rings = mesh_rings(*slow, members);
    REQUIRE((plain && rings));
    CHECK(rings->rings == plain->rings);
    CHECK(rings->links == plain->links);
  }
}

TEST_CASE("collectives of a cube mesh take 2 (n-1)/n S / (rings x B)") {
  const std::int64_t n = GENERATE(2, 4, 8), bytes = std::int64_t{1} << 28;
  const auto kind = GENERATE(CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter);
  GraphBuilder graph(1);
  graph.add(0, graph.one("collective", Stream::tensor, Collective{kind, Group::tensor, bytes / 2, DType::bf16, Reduce::sum}));
  const TaskGraph g = graph.take();
  const Mesh m = mesh(n, 1, 1);
  FakeCost cost;
  cost.fit.nccl = NcclArchitecture::volta;
  const std::map<std::int64_t, double> rings{{2, 1}, {4, 4}, {8, 6}};
  const double times = kind == CollectiveKind::all_reduce ? 2 : 1, steps = times * static_cast<double>(n - 1);
  const double wire = steps / static_cast<double>(n) * static_cast<double>(bytes) / (rings.at(n) * 25e9);
  const auto t = machine("dgx-1v", n);
  CHECK(simulate_step({g, m, *t, cost}, {}).step_time.seconds() == Approx(wire + 8.4e-6 + steps * 3.4e-6).epsilon(1e-6));
}
