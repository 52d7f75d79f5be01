// What a cluster's description says of its hosts and its network reaches NCCL's choice.

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "sim/cost/cost_model.hpp"
#include "sim/engine/simulate_step.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/graphs.hpp"
#include "tests/source_dir.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

double all_reduce_s(const Topology& topology, std::int64_t devices, std::int64_t bytes) {
  GraphBuilder graph(1);
  graph.add(0, graph.one("collective", Stream::tensor,
                         Collective{CollectiveKind::all_reduce, Group::tensor, bytes / 2, DType::bf16, Reduce::sum}));
  const TaskGraph g = graph.take();
  const Mesh m = mesh(devices, 1, 1);
  return simulate_step({g, m, topology, *make_cost_model(topology.device())}, {}).step_time.seconds();
}

/// On a cluster of its own: a node by name or as an object, and what its fabric says besides.
double all_reduce_s(const std::string& node, const std::string& fabric_more, std::int64_t devices, std::int64_t bytes) {
  const std::string name = "tandem_fabric_" + std::to_string(::getpid()) + ".json";
  const std::string path = (std::filesystem::temp_directory_path() / name).string();
  std::ofstream(path) << R"({"node": )" << node << R"(, "device": "a100-sxm4-80gb", "fabric": {)"
                      << R"("nodes_per_leaf": 16, "oversubscription": 1,)" << fabric_more << R"("switch_latency_s": 0}})";
  ClusterSpec spec;
  spec.preset = path, spec.devices = devices;
  const auto topology = make_topology(spec);
  std::filesystem::remove(path);
  return all_reduce_s(*topology, devices, bytes);
}

double all_reduce_s(const std::string& fabric_more, std::int64_t devices, std::int64_t bytes) {
  return all_reduce_s(R"("dgx-a100")", fabric_more, devices, bytes);
}

}  // namespace

TEST_CASE("where a fabric says that it reduces, vectors go up once and come down once") {
  const std::int64_t bytes = std::int64_t{1} << 33;
  const auto size = static_cast<double>(bytes);
  // A ring through 16 nodes' NICs of 200 GB/s: 2 x 127/128, after 1.4 times 8.4 us, 224 steps of 6 (an AMD host posts them) and 30
  // of 14. What the switches reduce is held by the nodes' links in a step, up and down.
  ClusterSpec spec;
  spec.preset = "dgx-a100-80gb", spec.devices = 8;
  const CommFit fit = make_cost_model(make_topology(spec)->device())->comm_fit();
  CHECK(all_reduce_s("", 128, bytes) ==
        Approx(size * 2 * 127 / 128 / (200e9 * fit.in_step_across_share) + 1.4 * 1772.4e-6).epsilon(0.005));
  CHECK(all_reduce_s(R"("reduces": true, )", 128, bytes) == Approx(size * 2 / (240e9 * fit.in_step_share)).epsilon(0.005));
  CHECK(all_reduce_s(R"("reduces": true, )", 8, bytes) == all_reduce_s("", 8, bytes));
}

TEST_CASE("what a network's plugin tells NCCL reaches its choice") {
  std::ifstream file(tests::source_dir() + "/topology/presets/nodes/p4de.24xlarge.json");
  auto node = nlohmann::json::parse(file);
  const std::int64_t whole_chunks = 64 << 20;
  const auto seconds = [&](std::int64_t bytes) { return all_reduce_s(node.dump(), "", 16, bytes); };
  ClusterSpec spec;
  spec.preset = "p4de.24xlarge", spec.devices = 16;
  const auto costs = make_cost_model(make_topology(spec)->device());
  const double before = (costs->launch() + costs->comm_fit().overhead).seconds();
  CHECK(seconds(64) == Approx(before + 164.4e-6).epsilon(0.01));  // Simple: 8.4 + 2 (7 x 4 + 14 + 2 x 18)
  const double at_8_mib = seconds(whole_chunks);
  node["scale_out"]["nccl"].erase("buffer_bytes");
  // Chunks of 512 KiB less on 8 channels: 14 stages over a device's links and one over a node's NICs.
  const double inside = 240e9 * costs->comm_fit().in_step_share, across = 50e9 * costs->comm_fit().in_step_across_share;
  CHECK(at_8_mib - seconds(whole_chunks) == Approx((4 << 20) * (14 / inside + 1 / across)).epsilon(0.001));
  node["scale_out"].erase("nccl");
  CHECK(seconds(64) == Approx(before + 61.2e-6).epsilon(0.01));   // LL: 6.8 + 2 (7 x 0.6 + 5 + 18)
}

TEST_CASE("a node may say what share of its links the library reaches, which replaces the calibration's") {
  const std::int64_t bytes = std::int64_t{1} << 30;
  const auto on = [&](const std::string& share) {
    return all_reduce_s(R"({"kind": "pcie", "devices": 8, "scale_up": {"device_bytes_per_s": "31.5 GB/s", "hop_latency_s": "5.7 us")" +
                            share + "}}", "", 8, bytes);
  };
  const double ring = static_cast<double>(bytes) * 2 * 7 / 8 / 31.5e9;
  CHECK(on(R"(, "reached_share": 0.44)") == Approx(ring / 0.44).epsilon(0.01));
  CHECK(on("") == Approx(ring / 0.8).epsilon(0.01));  // of NVLinks, on A100
}
