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
