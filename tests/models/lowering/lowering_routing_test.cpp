// Routers that choose with a bias of each expert, which balances their load and has no gradient.

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

Plan plan_of(const json& moe, const json& parallel = json::object()) {
  json plan = {{"model", {{"family", "llama"}, {"num_layers", 2}, {"hidden_size", 32}, {"num_attention_heads", 4}, {"vocab_size", 64}}},
               {"parallel", parallel},
               {"training", {{"seq_length", 16}, {"micro_batch_size", 1}, {"global_batch_size", 4}}},
               {"cluster", {{"preset", "cpu-host"}, {"devices", 1}}}};
  plan["model"]["moe"] = {{"num_experts", 8}, {"experts_per_token", 2}, {"ffn_hidden_size", 16}};
  plan["model"]["moe"].update(moe);
  std::int64_t ranks = 1;
  for (const char* axis : {"tensor", "data", "pipeline", "context"}) ranks *= parallel.value(axis, 1);
  plan["cluster"]["devices"] = ranks;
  return parse_plan(plan.dump(), "routing.json");
}

/// Operations of one kind in the whole graph.
template <class T>
std::vector<T> all_of(const TaskGraph& graph) {
  std::vector<T> found;
  for (const Template& t : graph.templates)
    for (const Task& task : t.tasks)
      if (const auto* op = std::get_if<T>(&task.op)) found.push_back(*op);
  return found;
}

const json kBalanced = {{"router_scores", "sigmoid"}, {"expert_groups", 4},     {"groups_per_token", 2}, {"group_score", "top2"},
                        {"weight_scale", 2.5},        {"balance_rate", 0.001}};

}  // namespace

TEST_CASE("a plan's routing reaches both passes alike, and groups that leave nothing out are none") {
  const TaskGraph graph = lower(plan_of(kBalanced));
  graph.check();
  for (const TopKRouter& op : all_of<TopKRouter>(graph)) {
    CHECK(op.routing.scores == RouterScores::sigmoid);
    CHECK(op.routing.scale == 2.5);
    CHECK(op.routing.groups == 4);
    CHECK(op.routing.kept_groups == 2);
    CHECK(op.routing.group_score == GroupScore::top2);
    CHECK(op.routing.bias);
  }
  REQUIRE(!all_of<TopKRouterBackward>(graph).empty());
  for (const TopKRouterBackward& op : all_of<TopKRouterBackward>(graph)) {
    CHECK(op.routing.kept_groups == 2);
    CHECK(op.routing.bias);
  }
  const TaskGraph plain = lower(plan_of({{"expert_groups", 4}}));
  REQUIRE(!all_of<TopKRouter>(plain).empty());
  for (const TopKRouter& op : all_of<TopKRouter>(plain)) CHECK(op.routing.plain());
  CHECK(all_of<BalanceGrad>(plain).empty());
}

TEST_CASE("the bias is a tensor of every layer of experts, moved by its rate, and no parameter of the plan's count") {
  const Plan with = plan_of(kBalanced), without = plan_of(json::object());
  const auto elements = [](const Plan& plan) {
    const TaskGraph graph = lower(plan);
    std::int64_t trained = 0, balancing = 0;
    for (const Param& p : graph.programs.front().params) {
      (p.sign_step >= 0 ? balancing : trained) += p.elements();
      if (p.sign_step < 0) continue;
      CHECK(p.name.ends_with("router.balance"));
      CHECK(p.sign_step == plan.model.moe.balance_rate);
      CHECK(p.init == Param::Init::zeros);
      CHECK(!p.decay);
    }
    return std::pair(trained, balancing);
  };
  CHECK(elements(with) == std::pair(elements(without).first, std::int64_t{2 * 8}));
  json still = kBalanced;
  still.update({{"balance_rate", 0}, {"balance_bias", true}});
  CHECK(elements(plan_of(still)) == elements(with));  // a step of 0
  const std::int64_t vocabulary = with.padded_vocab_size();
  CHECK(count_parameters(with.model, vocabulary).total == count_parameters(without.model, vocabulary).total);
}

TEST_CASE("parts of the batch that are balanced are all that route, and their tokens together are the batch's") {
  const json layouts[] = {json::object(),
                          {{"data", 2}},
                          {{"tensor", 2}},
                          {{"tensor", 2}, {"sequence_parallel", true}},
                          {{"context", 2}},
                          {{"pipeline", 2}, {"schedule", "zb-h1"}},
                          {{"data", 2}, {"expert", 2}, {"zero_stage", 3}}};
  for (const json& layout : layouts) {
    CAPTURE(layout.dump());
    const TaskGraph graph = lower(plan_of(kBalanced, layout));
    graph.check();
    REQUIRE(!all_of<BalanceGrad>(graph).empty());
    for (const BalanceGrad& op : all_of<BalanceGrad>(graph)) {
      CHECK(op.dims.tokens * op.micro_batches == 4 * 16);
      CHECK(op.scale() == 1.0 / 1024);  // 64 tokens x 2 x 8 experts
    }
  }
}
