#include <set>

#include "tests/catch.hpp"
#include "tests/topology/clusters.hpp"
#include "topology/link_names.hpp"

using namespace tandem;

namespace {

std::string names(const Topology& t, const std::vector<std::int32_t>& route) {
  std::string out;
  for (const std::int32_t l : route) out += (out.empty() ? "" : ", ") + t.link_name(l);
  return out;
}

std::string message(const Topology& t, const Perturbation& p) {
  try {
    perturbed(t, p);
  } catch (const ConfigError& e) {
    std::string all;
    for (const Problem& one : e.problems()) all += one.message() + "\n";
    return all;
  }
  return "";
}

Perturbation lost(const std::string& link) {
  Perturbation p;
  p.lost_links.push_back(link);
  return p;
}

}  // namespace

TEST_CASE("a slow device is found by its rank or by its node and place, and all of a node by its number") {
  ClusterSpec spec = cluster("dgx-a100-80gb", 16);
  spec.ranks_per_device = 2;
  const auto plain = make_topology(spec);
  Perturbation p;
  p.slow_devices = {{7, -1, -1, 0.8}, {-1, 1, 2, 0.5}};
  const auto t = perturbed(*plain, p);
  for (std::int32_t d = 0; d < 16; ++d) CHECK(t->speed(DeviceId(d)) == (d == 3 ? 0.8 : d == 10 ? 0.5 : 1));
  CHECK(plain->speed(DeviceId(3)) == 1);
  p.slow_devices = {{-1, 1, -1, 0.5}, {-1, 1, 2, 0.8}};
  const auto mixed = perturbed(*plain, p);
  for (std::int32_t d = 0; d < 16; ++d) CHECK(mixed->speed(DeviceId(d)) == (d < 8 ? 1 : d == 10 ? 0.4 : 0.5));
}

TEST_CASE("a name means one direction, both, or a link of every number") {
  const auto t = make_topology(cluster("dgx-a100-80gb", 32));
  const auto count = [&](const std::string& name) { return links_named(*t, name).size(); };
  CHECK(count("node 0: NIC 2 to leaf") == 1);
  CHECK(count("node 0: NIC 2 <-> leaf") == 2);
  CHECK(count("node *: NIC 2 <-> leaf") == 8);
  CHECK(count("node *: device * to switch") == 32);
  CHECK(count("leaf 0 <-> spine") == 2);
  CHECK(count("node 4: NIC 2 to leaf") == 0);
  CHECK(count("node 0: NIC 2") == 0);
  const auto mesh = make_topology(cluster("hls-gaudi2", 8));
  CHECK(links_named(*mesh, "node 0: device 1 <-> device 5").size() == 2);
}

TEST_CASE("a slow link has its share of bandwidth and keeps its latency, and so have both directions") {
  const auto plain = make_topology(cluster("dgx-a100-80gb", 16));
  Perturbation p;
  p.slow_links.push_back({"node 1: NIC 2 <-> leaf", 0.5});
  const auto t = perturbed(*plain, p);
  int changed = 0;
  for (std::int32_t l = 0; l < t->link_count(); ++l) {
    const double before = plain->link(l).bandwidth.bytes_per_second(), after = t->link(l).bandwidth.bytes_per_second();
    CHECK(t->link(l).latency == plain->link(l).latency);
    CHECK((after == before || after == 0.5 * before));
    changed += after != before;
  }
  CHECK(changed == 2);
  CHECK(t->route(DeviceId(2), DeviceId(10)) == plain->route(DeviceId(2), DeviceId(10)));
}

TEST_CASE("traffic of a lost NIC goes over the switch to another device's, on the same rail at either end") {
  const auto plain = make_topology(cluster("dgx-a100-80gb", 16));
  const auto t = perturbed(*plain, lost("node 0: NIC 2 <-> leaf"));
  const auto way = t->route(DeviceId(2), DeviceId(10));
  CHECK(names(*t, way) ==
        "node 0: device 2 to switch, node 0: switch to device 1, node 0: device 1 to NIC 1, node 0: NIC 1 to leaf, "
        "node 1: leaf to NIC 1, node 1: NIC 1 to device 1, node 1: device 1 to switch, node 1: switch to device 2");
  // Back by the same help, and everybody else as before.
  CHECK(t->route(DeviceId(10), DeviceId(2)).size() == way.size());
  CHECK(t->route(DeviceId(3), DeviceId(11)) == plain->route(DeviceId(3), DeviceId(11)));
  CHECK(t->route(DeviceId(2), DeviceId(5)) == plain->route(DeviceId(2), DeviceId(5)));
}

TEST_CASE("a lost link of a cube mesh is gone round") {
  const auto plain = make_topology(cluster("dgx-1v", 8));
  const auto before = plain->route(DeviceId(0), DeviceId(1));
  REQUIRE(before.size() == 1);
  const auto t = perturbed(*plain, lost("node 0: device 0 <-> device 1"));
  const auto after = t->route(DeviceId(0), DeviceId(1));
  CHECK(after.size() == 2);
  CHECK(std::find(after.begin(), after.end(), before.front()) == after.end());
}

TEST_CASE("where nothing passes traffic on a lost link stops the job") {
  const auto gaudi = make_topology(cluster("hls-gaudi2", 8)), nvlink = make_topology(cluster("dgx-a100-80gb", 8));
  const auto mesh = perturbed(*gaudi, lost("node 0: device 1 to device 5"));
  CHECK_THROWS_AS(mesh->route(DeviceId(1), DeviceId(5)), InfeasibleError);
  CHECK_NOTHROW(mesh->route(DeviceId(5), DeviceId(1)));
  const auto port = perturbed(*nvlink, lost("node 0: device 3 to switch"));
  try {
    port->route(DeviceId(3), DeviceId(4));
    FAIL("no way was left");
  } catch (const InfeasibleError& e) {
    CHECK_THAT(e.problems().front().message(), Catch::Contains("lost_links") && Catch::Contains("node 0: device 3 to switch") &&
                                                   Catch::Contains("the job stops"));
  }
}

TEST_CASE("what the machine does not have is refused with what it has, all at once") {
  const auto t = make_topology(cluster("dgx-a100-80gb", 16));
  Perturbation p;
  p.slow_devices = {{16, -1, -1, 0.8}, {-1, 2, 0, 0.8}, {-1, 0, 8, 0.8}};
  p.slow_links.push_back({"node 0: rail 2", 0.5});
  p.lost_links.push_back("spine 7");
  const std::string all = message(*t, p);
  for (const char* part : {"rank 16: the cluster has no such rank; use 0 to 15", "node 2: the cluster has no such node; use 0 to 1",
                           "device 8: the node has no such device; use 0 to 7", "slow_links = \"node 0: rail 2\": the cluster has no such link",
                           "\"node 0..1: device 0..7 to switch\"", "\"node 0..1: NIC 0..7 to leaf\"", "lost_links = \"spine 7\""})
    CHECK_THAT(all, Catch::Contains(part));
}
