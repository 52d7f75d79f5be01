#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "models/base/error.hpp"
#include "models/base/presets.hpp"
#include "tests/catch.hpp"
#include "tests/readme_keys.hpp"
#include "tests/source_dir.hpp"
#include "tests/topology/clusters.hpp"
#include "topology/preset.hpp"

using namespace tandem;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const fs::path kTopology = fs::path(tests::source_dir()) / "topology";

json read(const fs::path& file) {
  std::ifstream in(file);
  return json::parse(in);
}

/// What a fact lacks to say where its number is from; empty if nothing.
std::string lack_of(const json& fact, const std::set<std::string>& sources) {
  if (fact.contains("fitted_on")) return fact["fitted_on"].is_string() && !fact["fitted_on"].get<std::string>().empty() ? "" : "a text in fitted_on";
  if (!fact.contains("source") || fact["source"].empty()) return "source, or fitted_on";
  for (const json& s : fact["source"])
    if (!sources.contains(s.get<std::string>())) return "the source " + s.get<std::string>() + " in topology/sources.json";
  return fact.contains("verified") && fact["verified"].is_boolean() ? "" : "verified, true or false";
}

/// Numbers without an origin: JSON pointer, and what is missing.
void collect_orphans(const json& value, const json::json_pointer& place, const std::set<std::string>& sources,
                     std::vector<std::string>& orphans) {
  if (value.is_object() && value.contains("value")) {
    if (const std::string lack = lack_of(value, sources); !lack.empty()) orphans.push_back(place.to_string() + " lacks " + lack);
  } else if (value.is_object()) {
    for (const auto& [key, child] : value.items()) collect_orphans(child, place / key, sources, orphans);
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) collect_orphans(value[i], place / i, sources, orphans);
  } else if (value.is_number()) {
    orphans.push_back(place.to_string() + R"( lacks an object {"value", "source", "verified"} around the number)");
  }
}

std::vector<std::string> orphans_of(const json& file) {
  std::set<std::string> ids;
  const json sources = read(kTopology / "sources.json");
  for (const auto& [id, text] : sources.items()) ids.insert(id);
  std::vector<std::string> orphans;
  collect_orphans(file, json::json_pointer(), ids, orphans);
  return orphans;
}

/// A user's file, gone after the test.
struct TemporaryFile {
  explicit TemporaryFile(const std::string& text) { std::ofstream(path) << text; }
  ~TemporaryFile() { fs::remove(path); }
  std::string path = (fs::temp_directory_path() / ("tandem_cluster_" + std::to_string(::getpid()) + ".json")).string();
};

const std::string kOwnCluster = R"({
  "name": "mine",
  "node": {"name": "pair", "kind": "crossbar", "devices": 2,
           "scale_up": {"device_bytes_per_s": "10 GB/s", "hop_latency_s": "1 us"},
           "scale_out": {"nics": 1, "nic_bytes_per_s": "100 Gb/s", "latency_s": "5 us"}},
  "device": "a100-sxm4-80gb",
  "fabric": {"nodes_per_leaf": 4, "oversubscription": 2, "switch_latency_s": "0.3 us"}})";

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  text.replace(text.find(what), what.size(), by);
  return text;
}

}  // namespace

TEST_CASE("every number of every preset names its source and whether it was verified") {
  int files = 0;
  for (const char* folder : {"presets", "calibration"})
    for (const auto& entry : fs::recursive_directory_iterator(kTopology / folder)) {
      if (entry.path().extension() != ".json") continue;
      for (const std::string& orphan : orphans_of(read(entry.path()))) FAIL_CHECK(entry.path().string() << ": " << orphan);
      ++files;
    }
  REQUIRE(files > 30);
}

TEST_CASE("a number without a source is found") {
  const auto orphan = [](const char* text) {
    const auto found = orphans_of(json::parse(text));
    return found.size() == 1 ? found[0] : std::to_string(found.size());
  };
  CHECK(orphan(R"({"a": {"value": 1, "source": ["nccl"], "verified": true}})") == "0");
  CHECK(orphan(R"({"a": {"b": 1}})") == R"(/a/b lacks an object {"value", "source", "verified"} around the number)");
  CHECK(orphan(R"({"a": ["x", 1]})").starts_with("/a/1 lacks an object"));
  CHECK(orphan(R"({"a": {"value": 1, "verified": true}})") == "/a lacks source, or fitted_on");
  CHECK(orphan(R"({"a": {"value": 1, "source": ["nobody"], "verified": true}})") == "/a lacks the source nobody in topology/sources.json");
  CHECK(orphan(R"({"a": {"value": 1, "source": ["nccl"]}})") == "/a lacks verified, true or false");
  CHECK(orphan(R"({"a": {"value": 1, "fitted_on": ""}})") == "/a lacks a text in fitted_on");
}

TEST_CASE("every cluster preset builds, with rates, memory and routes") {
  const auto names = preset_names("topology/presets");
  for (const char* needed : {"dgx-1v", "dgx-1v-16gb", "dgx-a100-80gb", "hgx-a100-40gb", "dgx-h100", "dgx-h200", "dgx-b200", "gb200-nvl72",
                             "gb300-nvl72", "hls-gaudi1", "hls-gaudi2", "hls-gaudi3", "trn1.32xlarge", "trn2.48xlarge", "cpu-host",
                             "p3dn.24xlarge", "p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge",
                             "p6-b200.48xlarge", "p6-b300.48xlarge", "p6e-gb200.36xlarge", "nd96asr_v4", "nd96amsr_a100_v4",
                             "nd96isr_h100_v5", "a3-highgpu-8g", "a3-megagpu-8g", "a3-ultragpu-8g", "hls-gaudi1h", "dl1.24xlarge",
                             "trn1n.32xlarge", "trn2-ultraserver", "trn3-gen1-ultraserver", "trn3-gen2-ultraserver", "dgx-b300",
                             "meta-24k", "meta-rsc", "imbue-h100", "spectrum-x-4k", "alibaba-hpn", "hgx-h800", "hgx-a800", "hgx-h20-96gb",
                             "hgx-h20-141gb", "alps-gh200", "isambard-ai", "jupiter-gh200", "jean-zay-h100", "a4-highgpu-8g",
                             "nd96isr_h200_v5", "nd128isr_ndr_gb200_v6", "bm.gpu.h100.8", "bm.gpu.h200.8", "bm.gpu.b200.8",
                             "bm.gpu.gb200.4", "bm.gpu.a100-v2.8", "bm.gpu.l40s.4", "g5.48xlarge", "g6.48xlarge", "g6e.48xlarge",
                             "pcie-h100-80gb", "pcie-h100-nvl-94gb", "pcie-a100-80gb", "pcie-a100-40gb", "pcie-l40s", "pcie-rtx-4090",
                             "pcie-rtx-5090", "pcie-rtx-6000-ada", "pcie-rtx-pro-6000", "pcie-a40", "pcie-rtx-a6000",
                             "frontier", "lumi-g", "mi300x-8x400g", "mi325x-8x400g", "mi355x-8x400g", "nd96isr_mi300x_v5", "bm.gpu.mi300x.8"})
    REQUIRE(std::find(names.begin(), names.end(), needed) != names.end());
  for (const std::string& name : names) {
    INFO(name);
    const bool alone = name.starts_with("pcie-");  // nodes without a network
    const std::int32_t last = alone ? 7 : 63;
    const auto t = make_topology(cluster(name, last + 1));
    CHECK(!t->device().peak.empty());
    CHECK(!t->device().generation.empty());
    CHECK(t->device().memory > Bytes(1 << 30));
    CHECK(t->device().memory_bandwidth.bytes_per_second() >= 1e10);
    CHECK(t->device().vector_rate.flops_per_second() > 0);
    CHECK(narrowest(*t, 0, last) > 1e9);
    CHECK(narrowest(*t, 0, last) < 1e12);
  }
}

TEST_CASE("the README of presets names every key that a cluster, a node or a device may have") {
  const std::set<std::string> named = tests::keys_named_in((kTopology / "presets/README.md").string());
  std::set<std::string> accepted;
  for (const std::string& name : preset_names("topology/presets")) {
    json whole = read(kTopology / "presets" / (name + ".json"));
    for (const std::string part : {"node", "device"})
      whole[part] = read(kTopology / "presets" / (part + "s") / (whole[part].get<std::string>() + ".json"));
    accepted.merge(tests::accepted_keys(whole, [](const std::string& path) { load_cluster(path); }));
  }
  for (const char* key : {"shape", "link_matrix", "pair_bytes_per_s", "protocol", "max_nodes", "runtime_bytes"}) CHECK(accepted.contains(key));
  for (const std::string& key : accepted) {
    INFO(key);
    CHECK(named.contains(key));
  }
}

TEST_CASE("every device preset has a calibration that is there") {
  const auto calibrations = preset_names("topology/calibration");
  for (const std::string& name : preset_names("topology/presets/devices")) {
    INFO(name);
    const json device = read(kTopology / "presets/devices" / (name + ".json"));
    REQUIRE(std::find(calibrations.begin(), calibrations.end(), device.at("calibration")) != calibrations.end());
  }
}

TEST_CASE("four logical cores of a Trainium2 chip share its links, and a chip has four neighbours") {
  const auto t = make_topology(cluster("trn2.48xlarge", 64));
  const auto far = [&](std::int32_t to) { return t->route(DeviceId(0), DeviceId(to)).size(); };
  REQUIRE(far(3) == 2);                                              // core, chip, core
  for (std::int32_t chip : {1, 3, 4, 12}) REQUIRE(far(4 * chip) == 3);  // one NeuronLink
  REQUIRE(far(4 * 10) == 6);                                         // two steps in either dimension
  REQUIRE(t->route(DeviceId(0), DeviceId(4))[1] == t->route(DeviceId(3), DeviceId(7))[1]);
}

TEST_CASE("inside a Trainium3 chip its cores are as fast in either UltraServer, whatever their switches carry") {
  const auto rate = [](const char* preset, std::int32_t from, std::int32_t to) {
    const auto t = make_topology(cluster(preset, 64));
    return t->link(t->route(DeviceId(from), DeviceId(to))[0]).bandwidth.bytes_per_second();
  };
  for (const char* preset : {"trn3-gen1-ultraserver", "trn3-gen2-ultraserver"})
    for (const auto& [a, b] : {std::pair(0, 3), std::pair(5, 6), std::pair(63, 60)}) CHECK(rate(preset, a, b) == 1280e9 / 4);
  CHECK(rate("trn3-gen1-ultraserver", 3, 4) == 1280e9 / 4);  // to the next chip, by the switch
  CHECK(rate("trn3-gen2-ultraserver", 3, 4) == 320e9 / 4);
  const auto t = make_topology(cluster("trn3-gen2-ultraserver", 1152));
  CHECK(t->link(t->route(DeviceId(0), DeviceId(576))[1]).bandwidth.bytes_per_second() == 25e9);  // a chip's NIC to another server
  CHECK(t->route(DeviceId(577), DeviceId(578)).size() == 2);
}

TEST_CASE("an UltraServer's planes are joined by rings of slower links, and the shortest ways are taken") {
  const auto t = make_topology(cluster("trn2-ultraserver", 256));
  const auto rate = [&](std::int32_t to) {
    const std::int32_t link = t->route(DeviceId(0), DeviceId(to))[1];
    return t->link(link).bandwidth.bytes_per_second();
  };
  CHECK(rate(4 * 1) == 128e9);
  CHECK(rate(4 * 4) == 128e9);
  CHECK(rate(4 * 16) == 64e9);
  CHECK(rate(4 * 48) == 64e9);  // the other way round
  const auto steps = [](std::int32_t a, std::int32_t b) { return std::min(std::abs(a - b), 4 - std::abs(a - b)); };
  for (std::int32_t a = 0; a < 64; ++a)
    for (std::int32_t b = 0; b < 64; ++b) {
      if (a == b) continue;
      const std::int32_t apart = steps(a % 4, b % 4) + steps(a / 4 % 4, b / 4 % 4) + steps(a / 16, b / 16);
      REQUIRE(t->route(DeviceId(4 * a), DeviceId(4 * b + 3)).size() == static_cast<std::size_t>(apart + 2));
    }
  const std::vector<std::int32_t>& ring = t->ring_order();
  REQUIRE(std::set<std::int32_t>(ring.begin(), ring.end()).size() == 256);
  for (std::size_t i = 0; i < ring.size(); ++i)
    REQUIRE(t->route(DeviceId(ring[i]), DeviceId(ring[(i + 1) % ring.size()])).size() <= 3);  // on one chip or the next
}

TEST_CASE("a device's rate inside an UltraServer, told otherwise, is shared by its chip's links as before") {
  ClusterSpec spec = cluster("trn2-ultraserver", 256);
  spec.override.scale_up_per_device = Bandwidth::bytes_per_second(2 * (4 * 128e9 + 2 * 64e9) / 4);  // twice of each of four cores
  const auto t = make_topology(spec);
  for (const auto& [to, rate] : {std::pair(4, 256e9), std::pair(4 * 16, 128e9)}) {
    const auto link = t->route(DeviceId(0), DeviceId(to))[1];
    CHECK(t->link(link).bandwidth.bytes_per_second() == Approx(rate));
  }
}

TEST_CASE("cards on PCIe are joined by the host's bridges, with a measured share of their links, and have no network") {
  const auto t = make_topology(cluster("pcie-rtx-4090", 8));
  CHECK(t->scale_up() == ScaleUp::pcie);
  CHECK(t->route(DeviceId(0), DeviceId(7)).size() == 2);
  CHECK(t->link_name(t->route(DeviceId(0), DeviceId(7))[0]) == "node 0: device 0 to host bridge");
  CHECK(t->link_share() == 0.44);
  CHECK(!make_topology(cluster("dgx-h100", 8))->link_share());
  CHECK_THROWS_AS(make_topology(cluster("pcie-rtx-4090", 16)), InfeasibleError);
}

TEST_CASE("rates of consumers' tensor cores are those with fp32 sums") {
  const auto bf16 = [](const char* preset) {
    return make_topology(cluster(preset, 8))->device().peak.at(DType::bf16).flops_per_second();
  };
  CHECK(bf16("pcie-rtx-4090") == Approx(128 * 512 * 2.52e9).epsilon(0.01));  // multiprocessors x FLOPs at half rate x Hz
  CHECK(bf16("g5.48xlarge") == Approx(80 * 512 * 1.71e9).epsilon(0.01));
  CHECK(bf16("pcie-l40s") == Approx(142 * 1024 * 2.52e9).epsilon(0.02));  // full rate
}

TEST_CASE("cards of a box without links between them are joined by its network alone") {
  const auto t = make_topology(cluster("hls-gaudi1h", 8));
  CHECK(t->devices_per_node() == 1);
  CHECK(narrowest(*t, 0, 1) == Approx(10 * 12.5e9));
}

TEST_CASE("Meta's pods are joined at a seventh of what is inside them") {
  const auto t = make_topology(cluster("meta-24k", 2 * 3072));
  CHECK(narrowest(*t, 0, 8 * 383) == Approx(50e9));
  double to_spine = 0;
  for (const std::int32_t link : t->route(DeviceId(0), DeviceId(3072)))
    to_spine = std::max(to_spine, t->link(link).bandwidth.bytes_per_second());
  CHECK(to_spine == Approx(3072 * 50e9 / 7));
}

TEST_CASE("a rank on Frontier is half of a card, whose halves are joined by four links and have a NIC together") {
  const auto t = make_topology(cluster("frontier", 256 * 8));
  CHECK(t->devices_per_node() == 8);
  CHECK(t->device().memory == Bytes(std::int64_t{64} << 30));
  CHECK(narrowest(*t, 0, 1) == Approx(4 * 50e9));
  CHECK(narrowest(*t, 0, 2) == Approx(50e9));
  CHECK(narrowest(*t, 2, 4) == Approx(2 * 50e9));
  CHECK(t->route(DeviceId(0), DeviceId(7)).size() > 1);
  CHECK(narrowest(*t, 0, 8) == Approx(25e9));
  CHECK(t->route(DeviceId(0), DeviceId(8))[1] == t->route(DeviceId(1), DeviceId(8))[1]);
  CHECK_THROWS_AS(make_topology(cluster("frontier", 9409 * 8)), InfeasibleError);
}

TEST_CASE("an MI300X has a link to each other on its node and a NIC") {
  const auto t = make_topology(cluster("mi300x-8x400g", 16));
  for (std::int32_t to = 1; to < 8; ++to) {
    CHECK(narrowest(*t, 0, to) == Approx(64e9));
    CHECK(t->route(DeviceId(0), DeviceId(to)) != t->route(DeviceId(0), DeviceId(to % 7 + 1)));
  }
  CHECK(narrowest(*t, 0, 8) == Approx(50e9));
}

TEST_CASE("unverified facts are named, verified ones are not") {
  const auto cpu = make_topology(cluster("cpu-host", 1))->unverified();
  REQUIRE(std::any_of(cpu.begin(), cpu.end(), [](const auto& s) { return s.find("memory_bytes_per_s") != s.npos; }));
  const auto a100 = make_topology(cluster("dgx-a100-80gb", 8))->unverified();
  REQUIRE(std::none_of(a100.begin(), a100.end(), [](const auto& s) { return s.find("peak_flops") != s.npos; }));
}

TEST_CASE("a user's own file is a cluster") {
  const TemporaryFile file(kOwnCluster);
  const auto t = make_topology(cluster(file.path, 16));
  REQUIRE(t->devices_per_node() == 2);
  REQUIRE(narrowest(*t, 0, 1) == 10e9);
  REQUIRE(narrowest(*t, 0, 2) == 12.5e9);
  REQUIRE(narrowest(*t, 0, 8) == 12.5e9);  // a leaf of four single NICs, oversubscribed twice: still two NICs wide
  REQUIRE(t->unverified().size() >= 8);
}

TEST_CASE("a torus of chips with one core needs no port between core and chip") {
  const auto torus = [](const std::string& more) {
    return replaced(replaced(kOwnCluster, R"("kind": "crossbar", "devices": 2)", R"("kind": "torus2d", "devices": 16)"),
                    R"("device_bytes_per_s": "10 GB/s")", R"("link_bytes_per_s": "10 GB/s", "shape": [4, 4])" + more);
  };
  const TemporaryFile file(torus(""));
  const auto t = make_topology(cluster(file.path, 32));
  CHECK(t->cores_per_chip() == 1);
  CHECK(narrowest(*t, 0, 5) == 10e9);     // its links limit a device,
  CHECK(narrowest(*t, 0, 16) == 12.5e9);  // or its node's NIC,
  const double port = t->link(t->route(DeviceId(0), DeviceId(1)).front()).bandwidth.bytes_per_second();
  CHECK(port >= 4 * 10e9 + 12.5e9);       // never the way from core to chip, even if all are in use
  const TemporaryFile two(replaced(torus(R"(, "cores_per_chip": 2)"), R"("devices": 16)", R"("devices": 32)"));
  CHECK_THROWS_WITH(make_topology(cluster(two.path, 32)), Catch::Contains("core_port_bytes_per_s"));
}

namespace {

std::string device_in_place(const std::string& facts) {
  return replaced(kOwnCluster, "\"a100-sxm4-80gb\"", "{" + facts + R"(, "memory_bytes_per_s": "3.35 TB/s", "host_launch_s": "5 us"})");
}

}  // namespace

TEST_CASE("rates of a device in place are numbers or texts with units") {
  const TemporaryFile file(device_in_place(R"("peak_flops_per_s": {"bf16": "989.4 TFLOP/s", "fp32": 66.9e12},
                                              "vector_flops_per_s": "66.9 TFLOP/s",
                                              "memory_bytes": "80 GB")"));
  const auto t = make_topology(cluster(file.path, 16));
  CHECK(t->device().peak.at(DType::bf16).flops_per_second() == 989.4e12);
  CHECK(t->device().peak.at(DType::fp32).flops_per_second() == 66.9e12);
  CHECK(t->device().memory.count() == 80'000'000'000);
  CHECK(t->device().usable_memory == t->device().memory);
}

TEST_CASE("numbers of a device that lack their unit are refused, and so are those of another kind") {
  struct Bad { const char *peak, *vector, *memory, *field; };
  const auto bad = GENERATE(values<Bad>({
      {"989", "6e13", "8e10", "peak_flops_per_s"},
      {"\"989 TFLOPS\"", "6e13", "80000000000", "peak_flops_per_s"},
      {"\"\"", "6e13", "80000000000", "peak_flops_per_s"},
      {"0", "6e13", "80000000000", "peak_flops_per_s"},
      {"9e14", "67", "80000000000", "vector_flops_per_s"},
      {"9e14", "-6e13", "80000000000", "vector_flops_per_s"},
      {"9e14", "\"6e13\"", "80000000000", "vector_flops_per_s"},
      {"9e14", "6e13", "80", "memory_bytes"},
      {"9e14", "6e13", "\"80 GB/s\"", "memory_bytes"},
      {"9e14", "6e13", "80000000000, \"usable_memory_bytes\": \"80 GiB\"", "usable_memory_bytes"},
      {"9e14", "6e13", "80000000000, \"usable_memory_bytes\": 80", "usable_memory_bytes"},
  }));
  const TemporaryFile file(device_in_place(R"("peak_flops_per_s": {"bf16": )" + std::string(bad.peak) + R"(}, "vector_flops_per_s": )" +
                                           bad.vector + R"(, "memory_bytes": )" + bad.memory));
  try {
    make_topology(cluster(file.path, 16));
    FAIL("accepted");
  } catch (const ConfigError& e) {
    INFO(e.what());
    CHECK(e.problems()[0].file == file.path);
    CHECK(e.problems()[0].field == "device." + std::string(bad.field));
    CHECK(!e.problems()[0].remedy.empty());
  }
}

TEST_CASE("parts of a cluster that have files of their own are found from its folder") {
  const fs::path folder = fs::temp_directory_path() / ("tandem_parts_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  json own = json::parse(kOwnCluster);
  std::ofstream(folder / "node.json") << own["node"].dump();
  std::ofstream(folder / "device.json") << [] {
    json device = read(kTopology / "presets/devices/a100-sxm4-80gb.json");
    device["calibration"] = "fitted.json";
    return device;
  }();
  own["node"] = "node.json", own["device"] = "./device.json";
  std::ofstream(folder / "own.json") << own.dump();
  const auto t = make_topology(cluster((folder / "own.json").string(), 16));
  CHECK(t->devices_per_node() == 2);
  CHECK(t->device().calibration == "fitted.json");  // which is not there: its reader says so
  std::ofstream(folder / "fitted.json") << "{}";
  CHECK(make_topology(cluster((folder / "own.json").string(), 16))->device().calibration == (folder / "./fitted.json").string());
  fs::remove_all(folder);
}

TEST_CASE("a cube mesh whose links or ring cannot be is refused") {
  const auto refused = [](const std::string& links, const std::string& ring) {
    const std::string text = replaced(replaced(kOwnCluster, "\"crossbar\"", "\"cube_mesh\""), "\"device_bytes_per_s\": \"10 GB/s\"",
                                      "\"link_bytes_per_s\": \"10 GB/s\", \"link_matrix\": " + links + ", \"ring\": " + ring);
    const TemporaryFile file(text);
    try {
      make_topology(cluster(file.path, 2));
    } catch (const ConfigError& e) {
      return e.problems()[0].field;
    }
    return std::string();
  };
  CHECK(refused("[[0, 1], [1, 0]]", "[0, 1]").empty());
  const std::string matrix = "node.scale_up.link_matrix", ring = "node.scale_up.ring";
  CHECK(refused("[[0, 0], [0, 0]]", "[0, 1]") == matrix);
  CHECK(refused("[[0, 1], [2, 0]]", "[0, 1]") == matrix);
  CHECK(refused("[[1, 1], [1, 0]]", "[0, 1]") == matrix);
  CHECK(refused("[[0, 1]]", "[0, 1]") == matrix);
  CHECK(refused("[[0, 1], [1, 0]]", "[1, 1]") == ring);
  CHECK(refused("[[0, 1], [1, 0]]", "[1, 2]") == ring);
}

TEST_CASE("a bad cluster file is refused with file and field") {
  struct Bad { const char *what, *by, *field; };
  const auto bad = GENERATE(values<Bad>({
      {"\"crossbar\"", "\"ladder\"", "node.kind"},
      {"\"devices\": 2", "\"devices\": 0", "node.devices"},
      {"\"devices\": 2", "\"devices\": \"two\"", "node.devices"},
      {"\"devices\": 2", "\"devices\": 4294967296", "node.devices"},
      {"\"nics\": 1", "\"nics\": 37500000000", "node.scale_out.nics"},
      {"\"devices\": 2", "\"devices\": 2, \"nicks\": 3", "node.nicks"},
      {"\"10 GB/s\"", "-1", "node.scale_up.device_bytes_per_s"},
      {"\"10 GB/s\"", "\"10 apples\"", "node.scale_up.device_bytes_per_s"},
      {"\"10 GB/s\"", "{\"value\": 1e9}", "node.scale_up.device_bytes_per_s"},
      {"\"oversubscription\": 2", "\"oversubscription\": 0.5", "fabric.oversubscription"},
      {"\"nodes_per_leaf\": 4, ", "", "fabric.nodes_per_leaf"},
      {"a100-sxm4-80gb", "a100-sxm4-90gb", "device"},
      {"\"5 us\"", "1e300", "node.scale_out.latency_s"},
      {"\"5 us\"", "5", "node.scale_out.latency_s"},            // microseconds, forgotten
      {"\"5 us\"", "\"5 s\"", "node.scale_out.latency_s"},
      {"\"10 GB/s\"", "10", "node.scale_up.device_bytes_per_s"},  // gigabytes, forgotten
      {"\"5 us\"", "{\"value\": 5e-6, \"source\": [], \"verified\": true, \"note\": 3}", "node.scale_out.latency_s"},
      {"\"5 us\"", "{\"value\": 5e-6, \"source\": 3, \"verified\": true}", "node.scale_out.latency_s"},
  }));
  const TemporaryFile file(replaced(kOwnCluster, bad.what, bad.by));
  try {
    make_topology(cluster(file.path, 16));
    FAIL("accepted " << bad.by);
  } catch (const ConfigError& e) {
    INFO(e.what());
    CHECK(e.problems()[0].file == file.path);
    CHECK(e.problems()[0].field == bad.field);
    CHECK(!e.problems()[0].reason.empty());
  }
}

TEST_CASE("a node says what its network's plugin tells NCCL") {
  const NcclSettings none = make_topology(cluster("dgx-h100", 16))->nccl_settings();
  CHECK_FALSE((none.only_simple || none.reported_latency || none.buffer || none.nvls_chunk));
  const auto told = [](const std::string& settings) {
    const std::string latency = R"("latency_s": "5 us")";
    const TemporaryFile file(replaced(kOwnCluster, latency, latency + R"(, "nccl": {)" + settings + "}"));
    return make_topology(cluster(file.path, 4));
  };
  const auto own = told(R"("protocol": "simple", "reported_latency_s": "75 us", )"
                        R"("buffer_bytes": "8 MiB", "nvls_chunk_bytes": 4096)");
  const auto slow = perturbed(*own, {});
  const auto other = recalibrated(own, "h100");
  for (const Topology* t : {own.get(), slow.get(), other.get()}) {
    const NcclSettings s = t->nccl_settings();
    CHECK(s.only_simple);
    CHECK(s.reported_latency == Duration::seconds(75e-6));
    CHECK(s.buffer == Bytes(8 << 20));
    CHECK(s.nvls_chunk == Bytes(4096));
  }
  CHECK_THROWS_AS(told(R"("protocol": "ll128")"), ConfigError);
  CHECK_THROWS_AS(told(R"("latency_s": "75 us")"), ConfigError);
}

TEST_CASE("a cluster says what its hosts compute with and whether its network reduces") {
  const auto plain = make_topology(cluster("dgx-h100", 16));
  CHECK(plain->host_processor() == HostProcessor::other);
  CHECK_FALSE(plain->network_reduces());
  CHECK(make_topology(cluster("dgx-a100-80gb", 16))->host_processor() == HostProcessor::amd);
  const std::string amd = replaced(kOwnCluster, "\"devices\": 2,", "\"devices\": 2, \"host_processor\": \"amd\",");
  const TemporaryFile file(replaced(amd, "\"oversubscription\": 2,", "\"oversubscription\": 2, \"reduces\": true,"));
  const auto own = make_topology(cluster(file.path, 4));
  CHECK(own->host_processor() == HostProcessor::amd);
  CHECK(own->network_reduces());
  CHECK(perturbed(*own, {})->host_processor() == HostProcessor::amd);
  CHECK(perturbed(*own, {})->network_reduces());
  CHECK(recalibrated(own, "h100")->host_processor() == HostProcessor::amd);
  CHECK(recalibrated(own, "h100")->network_reduces());
  const TemporaryFile wrong(replaced(amd, "\"amd\"", "\"i8080\""));
  CHECK_THROWS_AS(make_topology(cluster(wrong.path, 4)), ConfigError);
}
