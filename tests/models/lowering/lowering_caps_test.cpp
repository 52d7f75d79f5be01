// Norms of queries and keys, soft caps, a bias of the output matrix, gates of shared experts: tasks, parameters, sums over ranks.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/models/lowering/lowered.hpp"

using namespace tandem;
using nlohmann::json;
using tests::graph_of;
using tests::refusal;

namespace {

json plan_of(const json& model, std::int64_t tensor = 1, bool sequence = false) {
  json plan = {{"model", {{"family", "llama"}, {"num_layers", 2}, {"hidden_size", 32}, {"num_attention_heads", 4}, {"num_kv_heads", 2},
                          {"vocab_size", 64}}},
               {"training", {{"seq_length", 16}, {"micro_batch_size", 1}, {"global_batch_size", 1}, {"precision", "bf16"}}},
               {"parallel", {{"tensor", tensor}, {"sequence_parallel", sequence}}},
               {"cluster", {{"preset", "cpu-host"}, {"devices", tensor}}}};
  plan["model"].update(model);
  return plan;
}

/// Tasks of all templates of this name.
std::vector<Task> tasks_of(const TaskGraph& graph, const std::string& name) {
  std::vector<Task> out;
  for (const Template& t : graph.templates)
    if (t.name == name) out.insert(out.end(), t.tasks.begin(), t.tasks.end());
  return out;
}
bool has(const std::vector<Task>& tasks, const std::string& name) {
  return std::any_of(tasks.begin(), tasks.end(), [&](const Task& t) { return t.name == name; });
}

std::int64_t parameters(const json& model) { return tests::parameters(plan_of(model)); }

const json kShared = {{"num_experts", 4}, {"experts_per_token", 2}, {"ffn_hidden_size", 16}, {"num_shared_experts", 1}, {"shared_gate", true}};

}  // namespace

TEST_CASE("norms of rows add two sums a token up over tensor ranks, in fp32, once in each pass") {
  for (const std::int64_t tensor : {1, 2, 4}) {
    const TaskGraph graph = graph_of(plan_of({{"qk_norm", "full"}}, tensor));
    for (const auto& [pass, sum] : {std::pair{"block_forward", "qk_sums"}, {"block_backward", "qk_dots"}}) {
      const std::vector<Task> tasks = tasks_of(graph, pass);
      CHECK(has(tasks, sum));
      const std::string name = std::string(sum) + "_all_reduce";
      const auto found = std::find_if(tasks.begin(), tasks.end(), [&](const Task& t) { return t.name == name; });
      REQUIRE((found != tasks.end()) == (tensor > 1));
      if (tensor == 1) continue;
      const auto& op = std::get<Collective>(found->op);
      CHECK(op.elements == 2 * 16);
      CHECK(op.dtype == DType::fp32);
      CHECK(op.group == Group::tensor);
    }
  }
}

TEST_CASE("heads that are made again are normed by the sums that were kept") {
  json plan = plan_of({{"qk_norm", "full"}}, 2);
  plan["training"].update({{"recompute", "full"}});
  CHECK(has(tasks_of(graph_of(plan), "block_recompute"), "qk_sums_all_reduce"));
  CHECK_FALSE(has(tasks_of(graph_of(plan), "block_backward"), "qk_sums"));
}

TEST_CASE("keys that several tensor ranks hold have one gradient of their norm's weight") {
  const std::vector<Task> copies = tasks_of(graph_of(plan_of({{"qk_norm", "full"}, {"num_kv_heads", 1}}, 2)), "block_backward");
  CHECK(has(copies, "k_norm.weight_kv_all_reduce"));
  CHECK_FALSE(has(tasks_of(graph_of(plan_of({{"qk_norm", "full"}}, 2)), "block_backward"), "k_norm.weight_kv_all_reduce"));
}

TEST_CASE("norms, biases and gates have the parameters that they are made of") {
  const std::int64_t plain = parameters(json::object());
  CHECK(parameters({{"qk_norm", "full"}}) - plain == 2 * (4 + 2) * 8);
  CHECK(parameters({{"qk_norm", "head"}}) - plain == 2 * 2 * 8);
  CHECK(parameters({{"qk_norm", "l2"}}) == plain);
  CHECK(parameters({{"output_bias", true}}) - plain == 64);
  CHECK(parameters({{"norm_placement", "behind"}}) == plain);
  json without = kShared;
  without["shared_gate"] = false;
  CHECK(parameters({{"moe", kShared}}) - parameters({{"moe", without}}) == 2 * 32);
}

TEST_CASE("a norm behind the turn stands only in layers that turn") {
  const json model = {{"qk_norm", "l2"}, {"window", {{"size", 4}, {"layers", "wf"}, {"full_rotary", false}}}};
  const TaskGraph graph = graph_of(plan_of(model));
  int with = 0, without = 0;
  for (const Template& t : graph.templates) {
    if (t.name != "block_forward") continue;
    const bool turns = has(t.tasks, "rotary");
    CHECK(has(t.tasks, "qk_norm") == turns);
    ++(turns ? with : without);
  }
  CHECK(with == 1);
  CHECK(without == 1);
}

TEST_CASE("soft caps stand behind scores and logits, and flash attention has its own") {
  json plan = plan_of({{"attention_soft_cap", 50.0}, {"logit_soft_cap", 30.0}});
  const TaskGraph graph = graph_of(plan);
  CHECK(has(tasks_of(graph, "block_forward"), "score_cap"));
  CHECK(has(tasks_of(graph, "block_backward"), "score_cap_backward"));
  CHECK(has(tasks_of(graph, "head_forward"), "logit_cap"));
  CHECK(has(tasks_of(graph, "head_forward"), "logit_cap_backward"));
  plan["training"]["flash_attention"] = true;
  const TaskGraph flash = graph_of(plan);
  CHECK_FALSE(has(tasks_of(flash, "block_forward"), "score_cap"));
  for (const Task& t : tasks_of(flash, "block_forward"))
    if (const auto* op = std::get_if<FlashAttention>(&t.op)) CHECK(op->soft_cap == 50.0);
}

TEST_CASE("a factor of embeddings is applied after their sum over tensor ranks, and to their gradient before it is gathered") {
  const TaskGraph graph = graph_of(plan_of({{"embedding_scale", 8.0}}, 2, true));
  const auto names = [&](const char* pass) {
    std::vector<std::string> out;
    for (const Task& t : tasks_of(graph, pass)) out.push_back(t.name);
    return out;
  };
  const std::vector<std::string> forward = names("embed_forward"), backward = names("embed_backward");
  CHECK(forward.back() == "embedding_scale");
  CHECK(backward.front() == "embedding_scale_backward");
  for (const Task& t : tasks_of(graph, "embed_forward"))
    if (t.name == "embedding_scale") CHECK(std::get<Elementwise>(t.op).factor == 8.0);
  CHECK_FALSE(has(tasks_of(graph_of(plan_of(json::object())), "embed_forward"), "embedding_scale"));
}

TEST_CASE("a factor of the residual is applied to complete sums with their bias, and to the gradient that enters a sublayer") {
  const auto names = [](const TaskGraph& graph, const char* pass) {
    std::vector<std::string> out;
    for (const Task& t : tasks_of(graph, pass)) out.push_back(t.name);
    return out;
  };
  using Names = std::vector<std::string>;
  const auto place = [](const Names& in, const std::string& name) { return std::find(in.begin(), in.end(), name) - in.begin(); };
  const TaskGraph graph = graph_of(plan_of({{"residual_scale", 0.25}, {"linear_bias", true}}, 2, true));
  const std::vector<std::string> forward = names(graph, "block_forward"), backward = names(graph, "block_backward");
  for (const char* part : {"attention", "mlp"}) {
    const std::string add = std::string(part) + "_add";
    CHECK(place(forward, add) == place(forward, add + "_scale") + 1);
    CHECK(place(backward, add + "_scale_backward") < static_cast<std::ptrdiff_t>(backward.size()));
  }
  CHECK(place(forward, "attention_add_scale") > place(forward, "proj_reduce_scatter"));
  CHECK(place(backward, "mlp_add_scale_backward") < place(backward, "mlp_add_bias_grad"));
  for (const Task& t : tasks_of(graph, "block_forward"))
    if (t.name == "mlp_add_scale") {
      CHECK(std::get<Elementwise>(t.op).factor == 0.25);
      CHECK(std::get<Elementwise>(t.op).kind == ElementwiseKind::add);  // of the bias
    }
  CHECK_FALSE(has(tasks_of(graph_of(plan_of(json::object())), "block_forward"), "mlp_add_scale"));
}

TEST_CASE("a factor of logits stands before their cap, and scores have the plan's factor in each of their operations") {
  for (const bool flash : {false, true}) {
    json plan = plan_of({{"logit_scale", 0.125}, {"logit_soft_cap", 30.0}, {"attention_scale", 0.5}}, 2);
    plan["training"]["flash_attention"] = flash;
    const TaskGraph graph = graph_of(plan);
    std::vector<std::string> head;
    for (const Task& t : tasks_of(graph, "head_forward")) head.push_back(t.name);
    const auto place = [&](const char* name) { return std::find(head.begin(), head.end(), name) - head.begin(); };
    CHECK(place("logits") + 1 == place("logit_scale"));
    CHECK(place("logit_scale") + 1 == place("logit_cap"));
    CHECK(place("logit_cap_backward") + 1 == place("logit_scale_backward"));
    int scores = 0;
    for (const char* pass : {"block_forward", "block_backward"})
      for (const Task& t : tasks_of(graph, pass)) {
        const auto check = [&](const auto* op) {
          if (op == nullptr) return;
          ++scores;
          CHECK(op->dims.score_factor() == 0.5);
        };
        check(std::get_if<FlashAttention>(&t.op)), check(std::get_if<FlashAttentionBackward>(&t.op));
        check(std::get_if<AttentionScores>(&t.op)), check(std::get_if<AttentionScoresBackward>(&t.op));
      }
    CHECK(scores >= 2);
  }
  CHECK(AttentionDims{1, 1, 1, 16}.score_factor() == 0.25);
}

TEST_CASE("a gate of shared experts, and caps in t5, are refused where they are not made") {
  CHECK(refusal(plan_of({{"moe", kShared}})).empty());
  CHECK(refusal(plan_of({{"moe", kShared}, {"linear_bias", true}})).find("model.moe.shared_gate") != std::string::npos);
  CHECK(refusal(plan_of({{"family", "t5"}, {"num_kv_heads", 4}, {"attention_soft_cap", 5.0}})).find("model.attention_soft_cap") !=
        std::string::npos);
}
