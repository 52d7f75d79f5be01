#include <algorithm>
#include <chrono>
#include <map>

#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/topology/clusters.hpp"

using namespace tandem;

namespace {

/// The cluster with half of the devices of its nodes of eight; `spec` is changed to say so.
std::shared_ptr<const Topology> on_half_nodes(ClusterSpec& spec) {
  spec.override.devices_per_node = 4;
  auto t = make_topology(spec);
  REQUIRE(t->devices_per_node() == 4);
  REQUIRE(t->node_of(DeviceId(4)) == 1);
  return t;
}

}  // namespace

TEST_CASE("some of a node's devices have their part of its NICs, at least one") {
  struct Expected { const char* preset; std::int64_t each; double all_bytes_per_s; };
  const auto e = GENERATE(values<Expected>({
      {"dgx-h100", 4, 4 * 50e9},                       // a NIC each
      {"gb200-nvl72", 8, 8 * 50e9},
      {"hls-gaudi2", 4, 12 * 12.5e9},                  // three ports of a card
      {"p4de.24xlarge", 4, 2 * 12.5e9},                // two devices share a NIC
      {"g5.48xlarge", 4, 12.5e9},                      // eight share it
  }));
  ClusterSpec spec = cluster(e.preset, 2 * e.each);
  spec.override.devices_per_node = e.each;
  const auto t = make_topology(spec);
  REQUIRE(t->devices_per_node() == e.each);
  std::map<std::int32_t, double> ways;  // those from the node to the next one, by their narrowest link
  for (std::int32_t d = 0; d < e.each; ++d) {
    const auto links = t->route(DeviceId(d), DeviceId(static_cast<std::int32_t>(d + e.each)));
    const auto narrow = std::min_element(links.begin(), links.end(), [&](std::int32_t a, std::int32_t b) {
      return t->link(a).bandwidth < t->link(b).bandwidth;
    });
    ways[*narrow] = t->link(*narrow).bandwidth.bytes_per_second();
  }
  double sum = 0;
  for (const auto& [link, rate] : ways) sum += rate;
  CHECK(sum == Approx(e.all_bytes_per_s));
}

TEST_CASE("the part of a rack that a job gets is the same, said by the plan or not") {
  ClusterSpec spec = cluster("gb200-nvl72", 128);
  const auto given = make_topology(spec);
  spec.override.devices_per_node = 64;
  const auto said = make_topology(spec);
  CHECK(narrowest(*said, 63, 64) == narrowest(*given, 63, 64));
}

TEST_CASE("pairs of devices get the bandwidth their datasheets say") {
  struct Expected { const char* preset; std::int64_t devices; std::int32_t a, b; double bytes_per_s; };
  const auto e = GENERATE(values<Expected>({
      {"dgx-a100-80gb", 8, 0, 7, 300e9},       // 12 NVLinks of 25 GB/s
      {"dgx-a100-80gb", 16, 0, 8, 25e9},       // one HDR NIC
      {"dgx-h100", 16, 3, 11, 50e9},           // one NDR NIC
      {"hls-gaudi2", 8, 2, 5, 37.5e9},         // 3 x 100GbE
      {"hls-gaudi2", 16, 2, 13, 37.5e9},       // 3 scale-out ports of a card
      {"hls-gaudi1", 8, 0, 1, 12.5e9},         // 1 x 100GbE
      {"hls-gaudi3", 8, 0, 1, 75e9},           // 3 x 200GbE
      {"dgx-b200", 8, 0, 7, 900e9},            // 18 NVLink 5 of 50 GB/s
      {"dgx-b200", 16, 3, 11, 50e9},           // one NDR NIC
      {"dgx-b300", 16, 3, 11, 100e9},          // one XDR NIC
      {"gb200-nvl72", 72, 0, 71, 900e9},       // one NVLink domain
      {"gb300-nvl72", 144, 5, 77, 50e9},       // one NIC for each GPU leaves the rack
      {"gb200-nvl72", 128, 63, 64, 50e9},      // a job over racks has 64 GPUs of each
      {"trn1.32xlarge", 32, 0, 2, 48e9},       // one NeuronLink of four
      {"trn2.48xlarge", 128, 0, 64, 25e9},     // one EFA NIC for each chip
      {"trn1.32xlarge", 64, 0, 32, 12.5e9},    // one EFA NIC for two chips
      {"hgx-h800", 8, 0, 7, 200e9},            // NVLink of 400 GB/s both ways
      {"hgx-h800", 16, 0, 8, 50e9},            // one NDR NIC
      {"hgx-a800", 8, 0, 7, 200e9},
      {"hgx-h20-96gb", 8, 0, 7, 450e9},        // as H100
      {"alps-gh200", 4, 0, 3, 150e9},          // six NVLink 4 to each of three
      {"alps-gh200", 8, 0, 4, 25e9},           // one Slingshot NIC
      {"bm.gpu.h100.8", 16, 0, 8, 50e9},       // two NICs of 200 Gb/s
      {"g6e.48xlarge", 16, 0, 8, 12.5e9},      // one NIC for two cards
      {"pcie-rtx-4090", 8, 0, 7, 31.5e9},      // PCIe 4.0 x16
      {"dgx-1v", 8, 0, 3, 50e9},               // a double NVLink 2
      {"dgx-1v", 8, 0, 2, 25e9},               // a single one
  }));
  INFO(e.preset << " " << e.a << " to " << e.b);
  REQUIRE(narrowest(*make_topology(cluster(e.preset, e.devices)), e.a, e.b) == e.bytes_per_s);
}

TEST_CASE("NICs of one rail meet in a leaf, others in the spine") {
  const auto t = make_topology(cluster("dgx-a100-80gb", 21 * 8));
  REQUIRE(t->route(DeviceId(2), DeviceId(8 + 2)).size() == 4);    // GPU, NIC, leaf, NIC, GPU
  REQUIRE(t->route(DeviceId(2), DeviceId(8 + 3)).size() == 6);    // another rail
  REQUIRE(t->route(DeviceId(2), DeviceId(20 * 8 + 2)).size() == 6);  // the same rail behind another leaf
}

TEST_CASE("oversubscription narrows what leaves a leaf and nothing else") {
  ClusterSpec spec = cluster("dgx-a100-80gb", 16);
  const auto full = make_topology(spec);
  spec.override.oversubscription = 4;
  const auto narrow = make_topology(spec);
  const auto rail = full->route(DeviceId(0), DeviceId(8)), spine = full->route(DeviceId(0), DeviceId(9));
  const auto bandwidth = [](const Topology& t, std::int32_t l) {
    return t.link(l).bandwidth.bytes_per_second();
  };
  for (std::int32_t l : rail) REQUIRE(bandwidth(*narrow, l) == bandwidth(*full, l));
  REQUIRE(bandwidth(*full, spine[2]) == 20 * 25e9);   // all NICs of a leaf at once
  REQUIRE(bandwidth(*narrow, spine[2]) == 5 * 25e9);
  REQUIRE(bandwidth(*narrow, spine[3]) == 5 * 25e9);
}

TEST_CASE("overrides of bandwidth are divided over NICs and links") {
  const auto out = [](const char* preset, std::int64_t devices, std::int32_t peer) {
    ClusterSpec spec = cluster(preset, devices);
    spec.override.scale_out_per_node = Bandwidth::bytes_per_second(80e9);
    return narrowest(*make_topology(spec), 0, peer);
  };
  REQUIRE(out("dgx-a100-80gb", 16, 8) == 10e9);
  REQUIRE(out("hls-gaudi2", 16, 8) == Approx(10e9).epsilon(1e-12));  // three ports of 1/24, added: rounding
  REQUIRE(out("trn1.32xlarge", 64, 32) == 10e9);
  const auto up = [](const char* preset, std::int64_t devices) {
    ClusterSpec spec = cluster(preset, devices);
    spec.override.scale_up_per_device = Bandwidth::bytes_per_second(84e9);
    return narrowest(*make_topology(spec), 0, 2);
  };
  REQUIRE(up("dgx-a100-80gb", 8) == 84e9);
  REQUIRE(up("hls-gaudi2", 8) == Approx(12e9).epsilon(1e-12));   // seven peers
  REQUIRE(up("trn1.32xlarge", 32) == 42e9);  // two cores of a chip over four links
}

TEST_CASE("another memory keeps what the driver takes, and the measured times of a device preset") {
  ClusterSpec spec = cluster("dgx-h100", 8);
  const Device own = make_topology(spec)->device();
  spec.override.memory_bytes = own.memory * 2;
  const auto larger = make_topology(spec);
  REQUIRE(larger->device().usable_memory == own.usable_memory + own.memory);
  REQUIRE(larger->device().measured == own.measured);
  spec.override.memory_bytes_per_s = own.memory_bandwidth;
  REQUIRE(make_topology(spec)->unverified() == larger->unverified());
  spec.override.memory_bytes_per_s = own.memory_bandwidth * 2;
  const auto faster = make_topology(spec);
  REQUIRE(faster->device().memory_bandwidth == own.memory_bandwidth * 2);
  REQUIRE(!own.measured.empty());
  REQUIRE(faster->device().measured == own.measured);
  REQUIRE(faster->unverified().size() == larger->unverified().size() + 1);
  spec.override.memory_bytes = own.memory - own.usable_memory;
  REQUIRE_THROWS_AS(make_topology(spec), InfeasibleError);
}

TEST_CASE("another link to the host replaces the preset's, for copies and on the way to the NIC, and what is told of it") {
  ClusterSpec spec = cluster("hls-gaudi2", 8);
  const auto tells = [](const Topology& t) {
    return std::ranges::any_of(t.unverified(), [](const std::string& fact) { return fact.find("host_link") != fact.npos; });
  };
  REQUIRE(tells(*make_topology(spec)));
  spec.override.host_link_bytes_per_s = Bandwidth::bytes_per_second(12e9);
  REQUIRE(make_topology(spec)->device().host_link == Bandwidth::bytes_per_second(12e9));
  REQUIRE_FALSE(tells(*make_topology(spec)));
  ClusterSpec across = cluster("dgx-a100-80gb", 16);  // 25 GB/s a NIC
  across.override.host_link_bytes_per_s = Bandwidth::bytes_per_second(12e9);
  REQUIRE(narrowest(*make_topology(across), 0, 8) == 12e9);
  ClusterSpec unknown = cluster("trn2.48xlarge", 64);     // no published link to the host
  REQUIRE(make_topology(unknown)->device().host_link.bytes_per_second() == 0);
  unknown.override.host_link_bytes_per_s = Bandwidth::bytes_per_second(24e9);
  REQUIRE(make_topology(unknown)->device().host_link.bytes_per_second() == 24e9);
  ClusterSpec card = cluster("pcie-rtx-4090", 8);         // the card's PCIe 4.0 x16
  REQUIRE(make_topology(card)->device().host_link.bytes_per_second() == 31.5e9);
}

TEST_CASE("fewer devices of a node may be used where links stay in place") {
  ClusterSpec spec = cluster("dgx-a100-80gb", 8);
  const auto t = on_half_nodes(spec);
  REQUIRE(narrowest(*t, 0, 4) == 25e9);
  spec.override.devices_per_node = 9;
  REQUIRE_THROWS_AS(make_topology(spec), InfeasibleError);
  ClusterSpec torus = cluster("trn1.32xlarge", 16);
  torus.override.devices_per_node = 16;
  REQUIRE_THROWS_AS(make_topology(torus), InfeasibleError);
}

TEST_CASE("half of a cube mesh keeps the links between its devices and a ring over them") {
  ClusterSpec spec = cluster("dgx-1v", 8);
  const auto half = on_half_nodes(spec), whole = make_topology(cluster("dgx-1v", 8));
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b < 4; ++b)
      if (a != b) REQUIRE(narrowest(*half, a, b) == narrowest(*whole, a, b));
}

TEST_CASE("the CPU host has as many cores as asked, one node, and computes in the host thread") {
  const auto t = make_topology(cluster("cpu-host", 6));
  REQUIRE(t->devices_per_node() == 6);
  REQUIRE(t->device().synchronous);
  REQUIRE(t->scale_up() == ScaleUp::shared_memory);
  ClusterSpec two_nodes = cluster("cpu-host", 4);
  two_nodes.override.devices_per_node = 2;
  REQUIRE_THROWS_AS(make_topology(two_nodes), InfeasibleError);
}

TEST_CASE("ranks fill devices in order") {
  ClusterSpec spec = cluster("cpu-host", 2);
  spec.ranks_per_device = 3;
  const auto t = make_topology(spec);
  std::vector<std::int32_t> devices;
  for (std::int32_t r = 0; r < 6; ++r) devices.push_back(t->device_of(Rank(r)).value());
  REQUIRE(devices == std::vector<std::int32_t>{0, 0, 0, 1, 1, 1});
}

TEST_CASE("a group's shape names its nodes and visits them one after the other") {
  const auto t = make_topology(cluster("trn1.32xlarge", 64));
  std::vector<Rank> members;
  for (std::int32_t r : {0, 8, 16, 24, 32, 40, 48, 56}) members.push_back(Rank(r));
  const GroupShape shape = shape_of(*t, members);
  REQUIRE(shape.node == std::vector<std::int32_t>{0, 0, 0, 0, 1, 1, 1, 1});
  REQUIRE(shape.ring == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7});  // chips 0, 4, 8, 12: one column
  const GroupShape row = shape_of(*t, {Rank(8), Rank(10), Rank(12), Rank(14)});
  REQUIRE(row.ring == std::vector<std::int32_t>{3, 2, 1, 0});  // the snake runs back through the second row
}

TEST_CASE("an unknown preset is answered with the nearest one") {
  try {
    make_topology(cluster("dgx-a100-80g", 8));
    FAIL("accepted");
  } catch (const ConfigError& e) {
    REQUIRE(e.problems().size() == 1);
    REQUIRE(e.problems()[0].field == "cluster.preset");
    REQUIRE(e.problems()[0].remedy.find("dgx-a100-80gb") != std::string::npos);
  }
}

TEST_CASE("four thousand devices are built and routed in moments") {
  const auto start = std::chrono::steady_clock::now();
  const auto t = make_topology(cluster("dgx-a100-80gb", 4096));
  std::size_t links = 0;
  for (std::int32_t d = 0; d < 4096; ++d) links += t->route(DeviceId(d), DeviceId((d * 31 + 8) % 4096)).size();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  REQUIRE(links > 4096);
  REQUIRE(seconds < 2);  // 0.03 s in a release build; the rest is for sanitizers and busy machines
}
