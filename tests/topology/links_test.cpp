#include "tests/catch.hpp"
#include "tests/topology/clusters.hpp"
#include "tests/topology/whole_graph.hpp"

using namespace tandem;
using tandem::test::Whole;

namespace {

const char* any_preset() {
  return GENERATE("dgx-a100-80gb", "dgx-h100", "gb200-nvl72", "hls-gaudi2", "dgx-1v", "trn1.32xlarge", "meta-24k", "cpu-host");
}

bool equal(const Link& a, const Link& b) { return a.bandwidth == b.bandwidth && a.latency == b.latency; }

}  // namespace

TEST_CASE("links found by number are those of the cluster written out") {
  const ClusterSpec spec = cluster(any_preset(), GENERATE(8, 200, 700));
  const auto t = make_topology(spec);
  const Whole whole(spec);
  REQUIRE(static_cast<std::size_t>(t->link_count()) == whole.graph.edges.size());
  for (std::int32_t l = 0; l < t->link_count(); ++l) {
    const GraphEdge& written = whole.graph.edges[static_cast<std::size_t>(l)];
    REQUIRE(t->link_name(l) == written.name);
    REQUIRE(equal(t->link(l), written.link));
  }
}

TEST_CASE("routes a period apart cross links a stride apart, of equal facts") {
  const auto t = make_topology(cluster(any_preset(), 1 << 14));
  const auto period = static_cast<std::int32_t>(t->period());
  const std::int32_t devices = std::min<std::int32_t>(1 << 14, static_cast<std::int32_t>(t->devices()));
  for (std::int32_t from = 0, by = 1; from + period < devices; from += 37, ++by) {
    const std::int32_t to = (from * 5 + 11) % (devices - period);
    const std::int32_t times = 1 + by % ((devices - 1 - std::max(from, to)) / period);
    const auto near = t->route(DeviceId(from), DeviceId(to));
    const auto far = t->route(DeviceId(from + times * period), DeviceId(to + times * period));
    REQUIRE(near.size() == far.size());
    for (std::size_t i = 0; i < near.size(); ++i) {
      REQUIRE(far[i] == near[i] + times * t->stride(near[i]));
      REQUIRE(equal(t->link(near[i]), t->link(far[i])));
    }
  }
}

TEST_CASE("a slow or a lost link takes a topology its period, a slow device does not") {
  const auto plain = make_topology(cluster("dgx-h100", 1024));
  REQUIRE(plain->period() > 0);
  Perturbation device, link, lost;
  device.slow_devices = {{7, -1, -1, 0.8}};
  link.slow_links = {{"node 1: NIC 2 <-> leaf", 0.5}};
  lost.lost_links = {"node 1: NIC 2 <-> leaf"};
  CHECK(perturbed(*plain, device)->period() == plain->period());
  CHECK(perturbed(*plain, link)->period() == 0);
  CHECK(perturbed(*plain, lost)->period() == 0);
}
