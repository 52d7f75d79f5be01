// What a cluster's description says of its hosts and its network reaches NCCL's choice.

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "sim/cost_model.hpp"
#include "sim/play.hpp"
#include "tests/catch.hpp"
#include "tests/sim/graphs.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

double all_reduce_s(const std::string& fabric_more, std::int64_t devices, std::int64_t bytes) {
  const std::string name = "tandem_fabric_" + std::to_string(::getpid()) + ".json";
  const std::string path = (std::filesystem::temp_directory_path() / name).string();
  std::ofstream(path) << R"({"node": "dgx-a100", "device": "a100-sxm4-80gb", "fabric": {)"
                      << R"("nodes_per_leaf": 16, "oversubscription": 1,)" << fabric_more << R"("switch_latency_s": 0}})";
  ClusterSpec spec;
  spec.preset = path, spec.devices = devices;
  const auto topology = make_topology(spec);
  std::filesystem::remove(path);
  GraphBuilder graph(1);
  graph.add(0, graph.one("collective", Stream::tensor,
                         Collective{CollectiveKind::all_reduce, Group::tensor, bytes / 2, DType::bf16, Reduce::sum}));
  const TaskGraph g = graph.take();
  const Mesh m = mesh(devices, 1, 1);
  return play({g, m, *topology, *make_cost_model(topology->device())}, {}).step_time.seconds();
}

}  // namespace

TEST_CASE("where a fabric says that it reduces, vectors go up once and come down once") {
  const std::int64_t bytes = std::int64_t{1} << 33;
  const auto size = static_cast<double>(bytes);
  // A ring through 16 nodes' NICs of 200 GB/s: 2 x 127/128, after 1.4 times 8.4 us, 224 steps of 6 (an AMD host posts them) and 30
  // of 14. What the switches reduce is held by the nodes' links in a step, up and down.
  ClusterSpec spec;
  spec.preset = "dgx-a100-80gb", spec.devices = 8;
  const double share = make_cost_model(make_topology(spec)->device())->comm_fit().in_step_share;
  CHECK(all_reduce_s("", 128, bytes) == Approx(size * 2 * 127 / 128 / 200e9 + 1.4 * 1772.4e-6).epsilon(0.005));
  CHECK(all_reduce_s(R"("reduces": true, )", 128, bytes) == Approx(size * 2 / (240e9 * share)).epsilon(0.005));
  CHECK(all_reduce_s(R"("reduces": true, )", 8, bytes) == all_reduce_s("", 8, bytes));
}
