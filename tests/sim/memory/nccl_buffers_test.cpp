#include "sim/memory/nccl_buffers.hpp"

#include "sim/result/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/plans.hpp"
#include "tests/stacks.hpp"

using namespace tandem;
using namespace tandem::sim;
using tandem::tests::SmallPlan;

namespace {

// Buffers of one connection: LL 512 KiB, LL128 4,800 KiB, Simple 4 MiB.
constexpr std::int64_t kAll = 524'288 + 4'915'200 + 4'194'304, kNoLl = kAll - 524'288;

/// Bytes of the communicators of a plan's first rank on DGX A100: its runtime memory less context and workspaces.
std::int64_t communicators(const SmallPlan& small, const std::string& stack = "tandem") {
  Plan plan = small.plan();
  tests::set_stack(plan, stack);
  ClusterSpec cluster = plan.cluster;
  cluster.preset = "dgx-a100-80gb";
  const auto topology = make_topology(cluster);
  const Prediction p = simulate(plan, lower(plan), *topology);
  const Bytes runtime = p.roles.front().memory_bytes[static_cast<std::size_t>(MemoryKind::runtime)];
  return (runtime - topology->device().runtime_memory - topology->device().library_memory).count();
}

}  // namespace

TEST_CASE("a communicator inside a node has a ring and a tree of connections on each of twice the channels found") {
  const auto a = NcclArchitecture::ampere;
  CHECK(nccl_buffers({1, 1, 12}, a).count() == 0);
  // Two ranks: two connections of the ring, two of the tree's one link, for both together.
  CHECK(nccl_buffers({2, 1, 12}, a).count() == 24 * (2 + 2) * kAll / 2);
  // Eight: eight of the ring, two of each of seven links; of 32 channels at most.
  CHECK(nccl_buffers({8, 1, 12}, a).count() == 24 * (8 + 14) * kAll / 8);
  CHECK(nccl_buffers({8, 1, 20}, a).count() == 32 * (8 + 14) * kAll / 8);
  CHECK(nccl_buffers({8, 1, 20}, NcclArchitecture::hopper).count() == 40 * kAll);  // rings alone, of 64 at most
}

TEST_CASE("between nodes a sender keeps LL in the host's memory") {
  const auto a = NcclArchitecture::ampere;
  // Alone on each of four nodes: the ring sends and receives once; of the tree's three links each node has 6/4 ends, in both ways.
  CHECK(nccl_buffers({1, 4, 1}, a).count() == 2 * (kNoLl + kAll) * 5 / 2);
  CHECK(nccl_buffers({1, 4, 1}, NcclArchitecture::blackwell).count() == 2 * (kNoLl + kAll));
  // Four on each of two nodes: three connections inside and one each way out; three links inside, one end outside.
  CHECK(nccl_buffers({4, 2, 4}, a).count() == 8 * (3 * kAll + kNoLl + kAll + 6 * kAll + kNoLl + kAll) / 4);
}

TEST_CASE("a rank has one communicator for each group of its own, and one for each neighbour of its pipeline") {
  SmallPlan plan;
  plan.precision = "fp32";
  plan.tensor = 2, plan.pipeline = 1, plan.data = 1;
  const std::int64_t two = nccl_buffers({2, 1, 12}, NcclArchitecture::ampere).count();  // 300 GB/s of links carry 12 rings of 20
  CHECK(communicators(plan) == two);  // tensor and norm are the same two ranks
  plan.tensor = 1, plan.data = 2;
  CHECK(communicators(plan) == two);
  plan.data = 1;
  CHECK(communicators(plan) == 0);
  plan.pipeline = 2;
  CHECK(communicators(plan) == two);  // neighbour, tied words and norm: the same two again
  plan.data = 2;
  // The neighbour (with it words and norm) and the data rank.
  CHECK(communicators(plan) == 2 * two);
}

TEST_CASE("DeepSpeed's engine has communicators of its own beside Megatron's for the same ranks") {
  SmallPlan plan;
  plan.precision = "fp32";
  const std::int64_t two = nccl_buffers({2, 1, 12}, NcclArchitecture::ampere).count();
  plan.tensor = 1, plan.pipeline = 1, plan.data = 2;
  CHECK(communicators(plan, "megatron-deepspeed") == 3 * two);  // world, and data of each of the two
  plan.data = 1, plan.tensor = 2;
  CHECK(communicators(plan, "megatron-deepspeed") == 3 * two);  // world, model, tensor; slices go with pipelines
  plan.tensor = 1, plan.pipeline = 2;
  // World, model, tied words, the pipeline of each of the two, and the neighbour.
  CHECK(communicators(plan, "megatron-deepspeed") == 6 * two);
}
