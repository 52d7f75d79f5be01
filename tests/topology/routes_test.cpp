#include <algorithm>
#include <set>

#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/topology/clusters.hpp"
#include "tests/topology/whole_graph.hpp"
#include "topology/route.hpp"

using namespace tandem;
using tandem::test::Whole;

namespace {

Duration latency(const Topology& t, const std::vector<std::int32_t>& route) {
  Duration sum;
  for (std::int32_t l : route) sum += t.link(l).latency;
  return sum;
}

/// True when the links lead from one device to the other without a gap.
bool connects(const Graph& g, const std::vector<std::int32_t>& route, std::int32_t from, std::int32_t to) {
  for (std::int32_t l : route) {
    const GraphEdge& e = g.edges[static_cast<std::size_t>(l)];
    if (e.from != from) return false;
    from = e.to;
  }
  return from == to;
}

}  // namespace

TEST_CASE("every route connects its devices and is a shortest path of the whole graph") {
  const auto [preset, devices] = GENERATE(table<const char*, int>({{"dgx-a100-80gb", 24}, {"dgx-a100-80gb", 5},
                                                                   {"hls-gaudi2", 16}, {"dgx-1v", 16}, {"cpu-host", 5}}));
  const ClusterSpec spec = cluster(preset, devices);
  const auto topology = make_topology(spec);
  const Whole whole(spec);
  const Router dijkstra(whole.graph);
  REQUIRE(static_cast<std::size_t>(topology->link_count()) == whole.graph.edges.size());
  for (std::int32_t a = 0; a < devices; ++a)
    for (std::int32_t b = 0; b < devices; ++b) {
      const auto route = topology->route(DeviceId(a), DeviceId(b));
      REQUIRE(connects(whole.graph, route, a, b));
      REQUIRE(route == dijkstra.path(a, b));
    }
}

TEST_CASE("dimension-ordered routes of a torus are as short as any") {
  const ClusterSpec spec = cluster("trn1.32xlarge", 64);
  const auto topology = make_topology(spec);
  const Whole whole(spec);
  const Router dijkstra(whole.graph);
  for (std::int32_t a = 0; a < 64; ++a)
    for (std::int32_t b = 0; b < 64; ++b) {
      const auto route = topology->route(DeviceId(a), DeviceId(b));
      const auto shortest = dijkstra.path(a, b);
      REQUIRE(connects(whole.graph, route, a, b));
      REQUIRE(route.size() == shortest.size());
      REQUIRE(latency(*topology, route) == latency(*topology, shortest));
    }
}

TEST_CASE("leaves beyond the first are reached through the spine, as in the whole graph") {
  ClusterSpec spec = cluster("trn1.32xlarge", 96);
  const auto topology = make_topology(spec);
  const auto route = topology->route(DeviceId(3), DeviceId(70));
  REQUIRE(route.size() == 8);  // core, chip, NIC, leaf, spine, leaf, NIC, chip, core
  const Whole whole(spec);
  REQUIRE(Router(whole.graph).path(3, 70) == route);
}

TEST_CASE("there and back are equally long") {
  const char* preset = GENERATE("dgx-a100-80gb", "hls-gaudi2", "trn1.32xlarge", "dgx-1v");
  const auto t = make_topology(cluster(preset, 64));
  for (std::int32_t a = 0; a < 64; a += 3)
    for (std::int32_t b = 0; b < 64; b += 5) {
      const auto there = t->route(DeviceId(a), DeviceId(b)), back = t->route(DeviceId(b), DeviceId(a));
      REQUIRE(there.size() == back.size());
      REQUIRE(latency(*t, there) == latency(*t, back));
      std::set<std::int32_t> shared(there.begin(), there.end());
      for (std::int32_t l : back) REQUIRE(!shared.contains(l));  // links are directed
    }
}

TEST_CASE("a crossbar never blocks two pairs and shares a device's port between its peers") {
  const auto t = make_topology(cluster("dgx-a100-80gb", 8));
  const auto r01 = t->route(DeviceId(0), DeviceId(1)), r02 = t->route(DeviceId(0), DeviceId(2));
  const auto r31 = t->route(DeviceId(3), DeviceId(1)), r23 = t->route(DeviceId(2), DeviceId(3));
  REQUIRE(r01.front() == r02.front());
  REQUIRE(r01.back() == r31.back());
  for (std::int32_t l : r23) REQUIRE(std::find(r01.begin(), r01.end(), l) == r01.end());
}

TEST_CASE("a full mesh gives every pair a link of its own") {
  const auto t = make_topology(cluster("hls-gaudi2", 8));
  std::set<std::int32_t> seen;
  for (std::int32_t a = 0; a < 8; ++a)
    for (std::int32_t b = 0; b < 8; ++b) {
      if (a == b) continue;
      const auto route = t->route(DeviceId(a), DeviceId(b));
      REQUIRE(route.size() == 1);
      REQUIRE(seen.insert(route.front()).second);
    }
}

TEST_CASE("the cores of a chip share its torus links") {
  const auto t = make_topology(cluster("trn1.32xlarge", 32));
  const auto first = t->route(DeviceId(0), DeviceId(2)), second = t->route(DeviceId(1), DeviceId(3));
  REQUIRE(first.size() == 3);
  REQUIRE(first[1] == second[1]);
  REQUIRE(first[0] != second[0]);
  REQUIRE(t->route(DeviceId(0), DeviceId(1)).size() == 2);  // inside the chip
}

TEST_CASE("neighbours of the ring order are neighbours in the torus and the ends meet") {
  const auto t = make_topology(cluster("trn1.32xlarge", 32));
  const auto& ring = t->ring_order();
  REQUIRE(std::set<std::int32_t>(ring.begin(), ring.end()).size() == 32);
  std::set<std::int32_t> torus_links;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const auto route = t->route(DeviceId(ring[i]), DeviceId(ring[(i + 1) % ring.size()]));
    REQUIRE(route.size() <= 3);
    if (route.size() == 3) REQUIRE(torus_links.insert(route[1]).second);  // no link carries the ring twice
  }
  REQUIRE(torus_links.size() == 16);
}

TEST_CASE("the ring of a cube mesh runs over double links") {
  const auto t = make_topology(cluster("dgx-1v", 8));
  const auto& ring = t->ring_order();
  for (std::size_t i = 0; i < ring.size(); ++i)
    REQUIRE(narrowest(*t, ring[i], ring[(i + 1) % ring.size()]) == 50e9);
}

TEST_CASE("a device outside the topology has no route") {
  const auto t = make_topology(cluster("dgx-a100-80gb", 8));
  REQUIRE_THROWS_AS(t->route(DeviceId(0), DeviceId(8)), ContractError);
  REQUIRE_THROWS_AS(t->route(DeviceId(-1), DeviceId(0)), ContractError);
  REQUIRE(t->route(DeviceId(4), DeviceId(4)).empty());
}
