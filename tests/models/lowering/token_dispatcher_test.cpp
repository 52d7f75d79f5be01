// Tokens that travel as copies: which exchanges carry them, in which type, and that nothing else changes.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "models/ops/collective_bytes.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

Plan plan_of(const json& parallel, const json& types = json::object()) {
  json plan = {{"model",
                {{"family", "llama"}, {"num_layers", 2}, {"hidden_size", 32}, {"num_attention_heads", 4}, {"vocab_size", 64},
                 {"moe", {{"num_experts", 8}, {"experts_per_token", 2}, {"ffn_hidden_size", 16}, {"expert_groups", 4}, {"groups_per_token", 2}}}}},
               {"parallel", {{"data", 4}, {"expert", 4}}},
               {"training", {{"seq_length", 16}, {"micro_batch_size", 1}, {"global_batch_size", 4}, {"precision", "bf16"}, {"dtypes", types}}},
               {"cluster", {{"preset", "dgx-h100"}, {"devices", 4}}}};
  plan["parallel"].update(parallel);
  return parse_plan(plan.dump(), "copies.json");
}

std::vector<Collective> exchanges(const TaskGraph& graph) {
  std::vector<Collective> found;
  for (const Template& t : graph.templates)
    for (const Task& task : t.tasks)
      if (const auto* c = std::get_if<Collective>(&task.op))
        if (c->kind == CollectiveKind::all_to_all && c->dtype != DType::int32) found.push_back(*c);
  return found;
}

}  // namespace

TEST_CASE("copies go to experts in the type of dispatch, and come back as activations") {
  const TaskGraph graph = lower(plan_of({{"token_dispatcher", "deepep"}}, {{"dispatch", "fp8"}}));
  graph.check();
  const std::vector<Collective> all = exchanges(graph);
  REQUIRE(!all.empty());
  for (const Collective& c : all) {
    CHECK(c.copies.experts == 8);
    CHECK(c.copies.per_token == 2);
    CHECK(c.copies.groups == 4);
    CHECK(c.copies.groups_per_token == 2);
    CHECK(c.copies.dtype == (c.back ? DType::bf16 : DType::fp8));
    CHECK(c.dtype == DType::bf16);  // of what lies in memory
  }
  CHECK(std::any_of(all.begin(), all.end(), [](const Collective& c) { return c.back; }));
  CHECK(std::any_of(all.begin(), all.end(), [](const Collective& c) { return !c.back; }));
}

TEST_CASE("rows and copies are the same tasks in the same memory") {
  const TaskGraph rows = lower(plan_of(json::object())), copies = lower(plan_of({{"token_dispatcher", "deepep"}}));
  for (const Collective& c : exchanges(rows)) CHECK(c.copies.experts == 0);
  REQUIRE(rows.templates.size() == copies.templates.size());
  for (std::size_t t = 0; t < rows.templates.size(); ++t) CHECK(rows.templates[t].tasks.size() == copies.templates[t].tasks.size());
  CHECK(rows.programs[0].memory.arena_bytes == copies.programs[0].memory.arena_bytes);
}

TEST_CASE("the type of dispatch is that of activations unless a plan says it, and is printed where tokens travel as copies") {
  const Plan copies = plan_of({{"token_dispatcher", "deepep"}}), rows = plan_of(json::object());
  CHECK(copies.training.dtypes.dispatch == DType::bf16);
  CHECK(to_json(copies).find("\"dispatch\"") != std::string::npos);
  CHECK(to_json(rows).find("\"dispatch\"") == std::string::npos);
  CHECK(plan_of(json::object(), {{"dispatch", "fp8"}}).ineffective ==
        std::vector<std::string>{"training.dtypes.dispatch changes nothing: tokens travel as activations unless parallel.token_dispatcher is deepep"});
}

namespace {

std::vector<Collective> gathers(const TaskGraph& graph, CollectiveKind kind) {
  std::vector<Collective> found;
  for (const Template& t : graph.templates)
    for (const Task& task : t.tasks)
      if (const auto* c = std::get_if<Collective>(&task.op); c != nullptr && c->kind == kind && c->group == Group::expert)
        found.push_back(*c);
  return found;
}

std::size_t forward(const TaskGraph& graph, const std::vector<Collective>& all) {
  const auto is_forward = [](const Template& t) { return t.name == "block_forward"; };
  const auto found = std::find_if(graph.templates.begin(), graph.templates.end(), is_forward);
  REQUIRE(found != graph.templates.end());
  return static_cast<std::size_t>(std::count_if(found->tasks.begin(), found->tasks.end(), [&](const Task& t) {
    const auto* c = std::get_if<Collective>(&t.op);
    return c != nullptr && c->group == Group::expert && c->kind == all.front().kind;
  }));
}

}  // namespace

TEST_CASE("a rank that gathers all tokens gathers each once a layer, sends no rows, and sums whole states") {
  const TaskGraph graph = lower(plan_of({{"token_dispatcher", "allgather"}}));
  graph.check();
  CHECK(exchanges(graph).empty());
  const std::vector<Collective> in = gathers(graph, CollectiveKind::all_gather);
  const std::vector<Collective> out = gathers(graph, CollectiveKind::reduce_scatter);
  REQUIRE(!in.empty());
  REQUIRE(!out.empty());
  constexpr std::int64_t kRanks = 4, kTokens = 16, kHidden = 32;
  CHECK(forward(graph, in) == 4);   // weights, slots, counts, tokens
  CHECK(forward(graph, out) == 1);  // sums of what the experts gave
  const auto states = [](const Collective& c) { return c.elements == kRanks * kTokens * kHidden && c.dtype == DType::bf16; };
  CHECK(std::any_of(in.begin(), in.end(), states));
  CHECK(std::all_of(out.begin(), out.end(), [&](const Collective& c) { return states(c) || c.elements == kRanks * kTokens * 2; }));
}

TEST_CASE("gathered tokens need experts that drop none, and rows that wait for no other micro-batch") {
  CHECK_THROWS_WITH(lower(plan_of({{"token_dispatcher", "allgather"}, {"overlap_experts", true}})),
                    Catch::Contains("parallel.overlap_experts") && Catch::Contains("alltoall and deepep"));
  json moe = json::parse(to_json(plan_of(json::object())));
  moe["model"]["moe"]["capacity_factor"] = 1.25;
  moe["parallel"]["token_dispatcher"] = "allgather";
  CHECK_THROWS_WITH(lower(parse_plan(moe.dump(), "gathered.json")),
                    Catch::Contains("parallel.token_dispatcher") && Catch::Contains("model.moe.capacity_factor 0"));
}

TEST_CASE("Megatron-Core moved gathered rows by single elements until September 2024, which costs time and changes no task") {
  const auto at = [](const char* month) {
    json plan = json::parse(to_json(plan_of({{"token_dispatcher", "allgather"}})));
    plan["stack"] = {{"name", "megatron-core"}, {"as_of", month}};
    return lower(parse_plan(plan.dump(), "dated.json"));
  };
  const TaskGraph before = at("2024-08"), after = at("2024-09");
  const auto moves = [](const TaskGraph& graph) {
    std::int64_t sum = 0;
    for (const Template& t : graph.templates)
      for (const Task& task : t.tasks)
        if (std::holds_alternative<MoeDispatch>(task.op) || std::holds_alternative<MoeCombine>(task.op))
          sum += vector_flops(task.op).count();
    return sum;
  };
  CHECK(moves(before) > 50 * moves(after));
  REQUIRE(before.templates.size() == after.templates.size());
  for (std::size_t t = 0; t < before.templates.size(); ++t)
    CHECK(before.templates[t].tasks.size() == after.templates[t].tasks.size());
}
