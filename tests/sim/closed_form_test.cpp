// The closed form against the event simulation and against the formulas of schedules.

#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <random>

#include "models/task_graph.hpp"
#include "sim/closed_form/closed_form.hpp"
#include "sim/simulate.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

/// A random plan that somebody could ask for: models of 125 million to 30 billion parameters on up to 64 devices.
Plan random_plan(std::mt19937& random, const std::string& preset) {
  const auto pick = [&](std::vector<std::string> list) { return list[random() % list.size()]; };
  const auto number = [&](std::vector<int> list) { return list[random() % list.size()]; };
  const auto n = [](std::int64_t v) { return std::to_string(v); };
  for (;;) {
    const int tensor = number({1, 2, 4, 8}), pipeline = number({1, 2, 4, 8}), data = number({1, 2, 4, 8});
    if (tensor * pipeline * data > 64) continue;
    const std::string schedule =
        pipeline == 1 ? "1f1b" : pick({"1f1b", "1f1b", "interleaved", "gpipe", "zb-h1", "zb-h2", "breadth-first"});
    const int chunks = schedule == "interleaved" || schedule == "breadth-first" ? 2 : 1;
    const int hidden = number({4096, 5120, 6144, 8192, 12288}), layers = pipeline * chunks * number({2, 3, 4});
    const int micro = number({1, 2, 4, 8}), batches = pipeline * number({1, 2, 4, 8, 16});
    const bool llama = random() % 2 == 0;
    const std::string model = R"({"family": ")" + std::string(llama ? "llama" : "gpt") + R"(", "num_layers": )" + n(layers) +
                              R"(, "hidden_size": )" + n(hidden) + R"(, "num_attention_heads": )" + n(hidden / 128) +
                              R"(, "vocab_size": 50257, "max_position_embeddings": 4096})";
    const std::string parallel =
        R"({"tensor": )" + n(tensor) + R"(, "pipeline": )" + n(pipeline) + R"(, "data": )" + n(data) + R"(, "virtual_pipeline": )" +
        n(chunks) + R"(, "schedule": ")" + schedule + R"(", "zero_stage": )" + n(number({0, 0, 1})) + R"(, "sequence_parallel": )" +
        pick({"true", "false"}) + R"(, "overlap_grad_reduce": )" + pick({"true", "false"}) + R"(, "overlap_p2p": )" +
        (schedule == "1f1b" ? pick({"true", "false"}) : "true") + R"(, "scatter_p2p": )" + pick({"true", "false"}) + "}";
    const std::string training = R"({"seq_length": )" + n(number({1024, 2048, 4096})) + R"(, "micro_batch_size": )" + n(micro) +
                                 R"(, "global_batch_size": )" + n(static_cast<std::int64_t>(micro) * batches * data) +
                                 R"(, "precision": "bf16", "flash_attention": )" + pick({"true", "false"}) + R"(, "recompute": ")" +
                                 pick({"none", "selective", "full"}) + R"("})";
    try {
      return parse_plan(R"({"model": )" + model + R"(, "parallel": )" + parallel + R"(, "training": )" + training +
                            R"(, "cluster": {"preset": ")" + preset + R"(", "devices": )" + n(std::max(8, tensor * pipeline * data)) + "}}",
                        "random.json");
    } catch (const InfeasibleError&) {
      continue;  // sequence parallelism without tensor ranks, a head that does not divide, ...
    }
  }
}

/// A cluster and what estimates plans on it.
struct Cluster {
  explicit Cluster(const ClusterSpec& spec) : topology(make_topology(spec)), cost(make_cost_model(topology->device())), form(*topology, *cost) {}
  std::shared_ptr<const Topology> topology;
  std::unique_ptr<CostModel> cost;
  ClosedForm form;
};

}  // namespace

TEST_CASE("the closed form is within a percent of the events on random plans that nothing contends in") {
  std::mt19937 random(1000);
  std::map<std::pair<std::string, std::int64_t>, std::unique_ptr<Cluster>> clusters;
  std::map<Outside, int> counted;
  double worst = 0;
  for (int i = 0; i < 1000; ++i) {
    const Plan plan = random_plan(random, i % 2 == 0 ? "dgx-a100-80gb" : "dgx-h100");
    auto& cluster = clusters[{plan.cluster.preset, plan.cluster.devices}];
    if (!cluster) cluster = std::make_unique<Cluster>(plan.cluster);
    const Estimate e = cluster->form.estimate(plan);
    ++counted[e.outside];
    if (e.outside != Outside::nothing) continue;
    const Prediction p = simulate(plan, lower(plan), *cluster->topology);
    const double error = e.step_time.seconds() / p.step_time.seconds() - 1;
    worst = std::max(worst, std::abs(error));
    if (std::abs(error) > 0.01) std::printf("%+.2f%% mem %+.1f%% %s\n", 100*error, 100*(static_cast<double>(e.memory.count())/static_cast<double>(p.roles[p.heaviest_role].peak_memory_bytes.count())-1), to_json(plan, -1).c_str());
  }
  std::printf("worst %.3f%%: %d inside, %d layout, %d contended, %d host\n", 100 * worst, counted[Outside::nothing], counted[Outside::layout], counted[Outside::contended], counted[Outside::host]);
  CHECK(counted[Outside::nothing] >= 500);
  CHECK(worst < 0.01);
}
