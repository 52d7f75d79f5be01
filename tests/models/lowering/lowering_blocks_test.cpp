// Blocks whose norms and sublayers stand elsewhere than before attention and MLP, one behind the other.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

json plan_of(const json& model) {
  json plan = {{"model", {{"family", "llama"}, {"num_layers", 2}, {"hidden_size", 32}, {"num_attention_heads", 4}, {"vocab_size", 64}}},
               {"training", {{"seq_length", 16}, {"micro_batch_size", 1}, {"global_batch_size", 1}}},
               {"cluster", {{"preset", "cpu-host"}, {"devices", 1}}}};
  plan["model"].update(model);
  return plan;
}

/// Names of a layer's tasks in its forward pass.
std::vector<std::string> forward(const json& model) {
  const TaskGraph graph = lower(parse_plan(plan_of(model).dump(), "blocks.json"));
  graph.check();
  std::vector<std::string> out;
  for (const Instance& i : graph.programs.front().instances)
    if (i.layer == 0 && i.phase == Phase::forward)
      for (const Task& task : graph.of(i).tasks) out.push_back(task.name);
  return out;
}

std::string refusal(const json& model) {
  try {
    require_lowerable(parse_plan(plan_of(model).dump(), "blocks.json"));
    return "";
  } catch (const InfeasibleError& e) {
    return e.problems().front().message();
  }
}

const json kExperts = {{"num_experts", 4}, {"experts_per_token", 2}, {"ffn_hidden_size", 16}};

}  // namespace

TEST_CASE("a sandwich has a norm before attention and MLP and one behind each, ahead of the residual") {
  const std::vector<std::string> names = forward({{"norm_placement", "sandwich"}});
  const std::vector<std::string> norms_and_adds = [&] {
    std::vector<std::string> kept;
    for (const std::string& n : names)
      if (n.starts_with("ln") || n.ends_with("_add") || n == "proj" || n == "fc2") kept.push_back(n);
    return kept;
  }();
  CHECK(norms_and_adds ==
        std::vector<std::string>{"ln1", "proj", "ln1_out", "attention_add", "ln2", "fc2", "ln2_out", "mlp_add"});
}

TEST_CASE("with norms behind alone attention and MLP read the state itself") {
  const std::vector<std::string> names = forward({{"norm_placement", "behind"}, {"qk_norm", "full"}});
  CHECK(names == std::vector<std::string>{"qkv", "qk_sums", "qk_norm", "rotary", "scores", "softmax", "context", "proj", "ln1_out",
                                          "attention_add", "fc1", "activation", "fc2", "ln2_out", "mlp_add"});
}

TEST_CASE("side by side attention and MLP read one norm or have one each") {
  const auto norms = [](const json& model) {
    const std::vector<std::string> names = forward(model);
    return std::count_if(names.begin(), names.end(), [](const std::string& n) { return n == "ln1" || n == "ln2"; });
  };
  CHECK(norms({{"parallel_residual", "one_norm"}}) == 1);
  CHECK(norms({{"parallel_residual", "two_norms"}}) == 2);
}

TEST_CASE("norms behind products with biases, and one norm for attention and experts, are refused by their fields") {
  CHECK(refusal({{"norm_placement", "sandwich"}, {"linear_bias", true}}).find("model.norm_placement = sandwich") != std::string::npos);
  CHECK(refusal({{"norm_placement", "behind"}, {"linear_bias", true}}).find("model.norm_placement = behind") != std::string::npos);
  CHECK(refusal({{"norm_placement", "behind"}, {"parallel_residual", "two_norms"}}).find("model.parallel_residual") != std::string::npos);
  CHECK(refusal({{"norm_placement", "behind"}, {"moe", kExperts}}).empty());
  CHECK(refusal({{"norm_placement", "post"}, {"parallel_residual", "one_norm"}}).find("model.parallel_residual") != std::string::npos);
  CHECK(refusal({{"moe", kExperts}, {"parallel_residual", "one_norm"}}).find("two_norms") != std::string::npos);
  CHECK(refusal({{"moe", kExperts}, {"parallel_residual", "two_norms"}}).empty());
  CHECK(refusal({{"moe", kExperts}, {"norm_placement", "sandwich"}}).empty());
}
