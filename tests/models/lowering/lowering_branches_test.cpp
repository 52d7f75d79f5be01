// Values that are keys, and experts beside an MLP with norms of both: parameters, tasks, and what is refused.

#include <nlohmann/json.hpp>
#include <string>

#include "models/graph/task_graph.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

/// A small Gemma 4 (huggingface/transformers: models/gemma4); `changes` are merged in.
json plan_of(const json& changes = json::object()) {
  json plan = {
      {"model",
       {{"family", "llama"}, {"num_layers", 4}, {"hidden_size", 32}, {"num_attention_heads", 4}, {"num_kv_heads", 1}, {"head_dim", 12},
        {"ffn_hidden_size", 48}, {"vocab_size", 64}, {"activation", "geglu"}, {"norm_placement", "sandwich"}, {"qk_norm", "head"},
        {"value_norm", true}, {"tie_kv", true},
        {"window", {{"size", 16}, {"layers", "wf"}, {"num_kv_heads", 2}, {"head_dim", 8}, {"own_values", true}}},
        {"moe", {{"num_experts", 4}, {"experts_per_token", 2}, {"ffn_hidden_size", 20}, {"num_shared_experts", 1},
                 {"shared_ffn_hidden_size", 28}, {"branch_norms", true}, {"router_norm", true}, {"expert_scale", true}}}}},
      {"training", {{"seq_length", 64}, {"micro_batch_size", 1}, {"global_batch_size", 8}, {"flash_attention", true}}},
      {"cluster", {{"preset", "cpu-host"}, {"devices", 1}}}};
  plan.merge_patch(changes);
  return plan;
}

Plan read(const json& changes) { return parse_plan(plan_of(changes).dump(), "branches.json"); }

/// Names of a layer's tasks in its forward pass.
std::vector<std::string> forward_tasks(const TaskGraph& graph, int layer) {
  std::vector<std::string> out;
  for (const Instance& i : graph.programs.front().instances)
    if (i.layer == layer && i.micro_batch == 0 && i.phase == Phase::forward)
      for (const Task& task : graph.of(i).tasks) out.push_back(task.name);
  return out;
}

const MatMul& product(const TaskGraph& graph, int layer, const std::string& name) {
  for (const Instance& i : graph.programs.front().instances)
    if (i.layer == layer && i.phase == Phase::forward)
      for (const Task& task : graph.of(i).tasks)
        if (task.name == name) return std::get<MatMul>(task.op);
  throw std::runtime_error("no task " + name);
}

std::string refusal(const json& changes) {
  try {
    require_lowerable(read(changes));
    return "";
  } catch (const InfeasibleError& e) {
    return e.problems().front().message();
  }
}

}  // namespace

TEST_CASE("a layer of experts beside an MLP has as many parameters as are counted, whatever its layout") {
  for (const json& changes : std::vector<json>{json::object(), {{"model", {{"moe", {{"num_experts", 0}}}}}},
                                               {{"model", {{"tie_kv", false}}}}, {{"model", {{"moe", {{"router_norm", false}}}}}}}) {
    CAPTURE(changes.dump());
    const Plan plan = read(changes);
    const TaskGraph graph = lower(plan);
    std::int64_t parameters = 0;
    for (const Param& p : graph.programs.front().params) parameters += p.rows * p.cols;
    CHECK(parameters == count_parameters(plan.model, plan.padded_vocab_size()).total_padded);
  }
}

TEST_CASE("where values are keys a product gives queries and keys alone") {
  const TaskGraph graph = lower(read(json::object()));
  CHECK(product(graph, 0, "qkv").n == 4 * 8 + 2 * (8 + 8));
  CHECK(product(graph, 1, "qkv").n == 4 * 12 + 12);
  CHECK(product(graph, 1, "proj").k == 4 * 12);
  CHECK(product(graph, 0, "shared.fc2").k == 28);
}

TEST_CASE("experts, MLP and router each read a norm of the state, and both sums have a norm before theirs") {
  const std::vector<std::string> tasks = forward_tasks(lower(read(json::object())), 1);
  for (const char* name : {"router_norm", "experts_ln", "ln2", "experts_out", "shared_out", "add_branches", "ln2_out", "mlp_add"})
    CHECK(std::count(tasks.begin(), tasks.end(), name) == 1);
}

TEST_CASE("graphs of such layers hold in every layout and with recomputation") {
  const json two = {{"cluster", {{"devices", 2}}}};
  const auto with = [](json a, const json& b) {
    a.merge_patch(b);
    return a;
  };
  for (const json& changes : std::vector<json>{
           json::object(),
           with(two, {{"parallel", {{"tensor", 2}}}}),
           with(two, {{"parallel", {{"tensor", 2}, {"sequence_parallel", true}}}}),
           with(two, {{"parallel", {{"pipeline", 2}, {"schedule", "zb-h1"}}}, {"training", {{"recompute", "selective"}, {"recompute_modules", {"norm"}}}}}),
           with(two, {{"parallel", {{"pipeline", 2}, {"schedule", "zb-h1"}}}}),
           with(two, {{"parallel", {{"data", 2}, {"zero_stage", 3}}}}),
           with(two, {{"parallel", {{"context", 2}, {"context_mode", "all_gather"}}}}),
           with(two, {{"parallel", {{"data", 2}, {"expert", 2}}}}),
           {{"training", {{"recompute", "full"}}}},
           {{"training", {{"recompute", "selective"}, {"recompute_modules", {"norm"}}}}},
           {{"training", {{"recompute", "selective"}, {"recompute_modules", {"moe"}}}}},
           {{"training", {{"recompute", "selective"}, {"recompute_modules", {"operations"}}}}}}) {
    CAPTURE(changes.dump());
    CHECK_NOTHROW(lower(read(changes)).check());
  }
}

TEST_CASE("what norms of values and of branches stand beside is refused by its field") {
  CHECK(refusal({{"model", {{"qk_norm", "full"}}}}).find("model.value_norm = true: not implemented") != std::string::npos);
  CHECK(refusal({{"model", {{"value_norm", false}}}}).find("model.tie_kv = true: not implemented") != std::string::npos);
  CHECK(refusal({{"model", {{"norm_placement", "pre"}}}}).find("model.moe.branch_norms = true: not implemented") != std::string::npos);
  CHECK(refusal({{"model", {{"moe", {{"branch_norms", false}}}}}}).find("model.moe.router_norm = true: not implemented") != std::string::npos);
  CHECK(refusal({{"model", {{"value_dim", 6}}}}).find("model.tie_kv = true: makes values of keys") != std::string::npos);
}
