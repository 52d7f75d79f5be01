// The last bias of experts, added by single operations: bytes and launches counted by hand from Megatron-LM's _apply_bias.

#include <nlohmann/json.hpp>
#include <string>

#include "models/graph/task_graph.hpp"
#include "models/ops/op.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

constexpr std::int64_t kHidden = 64, kExperts = 4, kRanks = 2, kTokens = 32, kEach = 2;

TaskGraph graph_of(const std::string& month) {
  const json plan = {{"stack", {{"name", "megatron-core"}, {"as_of", month}, {"rules", "note"}}},
                     {"model",
                      {{"family", "llama"}, {"num_layers", 2}, {"hidden_size", kHidden}, {"num_attention_heads", 4}, {"vocab_size", 64},
                       {"linear_bias", true},
                       {"moe", {{"num_experts", kExperts}, {"experts_per_token", kEach}, {"ffn_hidden_size", 16}}}}},
                     {"parallel", {{"data", kRanks}, {"expert", kRanks}}},
                     {"training", {{"seq_length", kTokens}, {"micro_batch_size", 1}, {"global_batch_size", kRanks}, {"precision", "bf16"}}},
                     {"cluster", {{"preset", "dgx-h100"}, {"devices", kRanks}}}};
  TaskGraph graph = lower(parse_plan(plan.dump(), "bias.json"));
  graph.check();
  return graph;
}

const Task& task_of(const TaskGraph& graph, const std::string& name) {
  for (const Template& t : graph.templates)
    for (const Task& task : t.tasks)
      if (task.name == name) return task;
  throw std::runtime_error("no task " + name);
}

std::int64_t bytes_of(const TaskGraph& graph, const std::string& name) {
  return traffic(task_of(graph, name).op, DType::bf16).count();
}

}  // namespace

TEST_CASE("the experts' last bias takes the bytes and launches of Megatron-LM's single operations since September 2025") {
  const TaskGraph before = graph_of("2025-08"), since = graph_of("2025-09");
  const std::int64_t elements = kTokens * kEach * kHidden, here = kExperts / kRanks;  // a rank gets as many rows as it sends
  // b * p writes fp32; t + reads bf16 and fp32, writes fp32; cat reads and writes fp32; to() reads fp32, writes bf16.
  const std::int64_t forward = 4 + (2 + 4 + 4) + (4 + 4) + (4 + 2);
  CHECK(bytes_of(since, "experts.fc2_bias") - bytes_of(before, "experts.fc2_bias") == (forward - 4) * elements);
  // Gradients: to() and that of t, each a cast; cat of the parts; times p and its sum over rows; times b and its sum over columns.
  const std::int64_t backward = (2 + 4) + (4 + 2) + (2 + 2) + (4 + 4 + 4) + (4 + 4 + 4);
  CHECK(bytes_of(since, "experts.fc2_bias_grad") - bytes_of(before, "experts.fc2_bias_grad") == (backward - 2) * elements);
  CHECK(task_of(since, "experts.fc2_bias").host_operations == 2 * here + 2);
  CHECK(task_of(since, "experts.fc2_bias_grad").host_operations == 6 * here + 3);
  for (const char* first : {"experts.fc1_bias", "experts.fc1_bias_grad"}) CHECK(bytes_of(since, first) == bytes_of(before, first));
}
