// Ulysses with more context ranks than key heads: ranks that share a key head have copies of it.

#include <nlohmann/json.hpp>

#include "models/graph/task_graph.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/agree/ledger.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

constexpr int kSteps = 2;

struct Layout {
  const char* parallel;
  const char* training = "{}";
};

Plan plan_of(const json& model, const Layout& l) {
  json parallel = json::parse(l.parallel);
  std::int64_t ranks = 1;
  for (const char* axis : {"tensor", "pipeline", "data", "context"}) ranks *= parallel.value(axis, std::int64_t{1});
  parallel["context_mode"] = "ulysses";
  json training = {{"seq_length", 16}, {"micro_batch_size", 1}, {"global_batch_size", 4}, {"precision", "fp64"}, {"epsilon", 1e-4},
                   {"dropout", {{"hidden", 0.1}, {"attention", 0.1}}}};
  training.update(json::parse(l.training));
  const json plan = {{"model", model}, {"parallel", parallel}, {"training", training},
                     {"cluster", {{"preset", "cpu-host"}, {"devices", ranks}}}};
  return parse_plan(plan.dump(), "ulysses.json");
}

json model_of(std::int64_t key_heads, const json& more = json::object()) {
  json model = {{"family", "llama"}, {"num_layers", 2}, {"hidden_size", 32}, {"num_attention_heads", 8}, {"num_kv_heads", key_heads},
                {"ffn_hidden_size", 40}, {"vocab_size", 37}, {"pad_vocab_to", 16}};
  model.update(more);
  return model;
}

const Layout kLayouts[] = {
    {R"({"context": 4})"},
    {R"({"context": 8})"},
    {R"({"context": 4})", R"({"flash_attention": true})"},
    {R"({"context": 8})", R"({"flash_attention": true, "recompute": "full"})"},
    {R"({"context": 4})", R"({"recompute": "selective", "recompute_modules": ["core_attention"]})"},
    {R"({"tensor": 2, "context": 4, "sequence_parallel": true})"},
    {R"({"pipeline": 2, "context": 4, "schedule": "zb-h1"})"},
    {R"({"data": 2, "context": 4, "zero_stage": 3})", R"({"flash_attention": true})"},
};

}  // namespace

TEST_CASE("more context ranks than key heads train like one rank with ulysses, and do what was simulated") {
  const std::int64_t key_heads = GENERATE(1, 2);
  const json more = GENERATE(json::object(), json{{"qk_norm", "head"}, {"value_dim", 6}, {"qkv_bias", true}});
  const json model = model_of(key_heads, more);
  const exec::RunResult one = tests::train(plan_of(model, {"{}"}), kSteps);
  for (const Layout& l : kLayouts) {
    INFO(key_heads << " key heads, " << more.dump() << ", " << l.parallel << " " << l.training);
    tests::check_trains_like(one, plan_of(model, l));
  }
}

TEST_CASE("as many bytes of keys travel as ranks read them") {
  const auto exchanged = [](std::int64_t key_heads, std::int64_t context) {
    const Plan plan = plan_of(model_of(key_heads), {context == 2 ? R"({"context": 2})" : R"({"context": 4})"});
    const TaskGraph graph = lower(plan);
    graph.check();
    for (const Template& t : graph.templates)
      for (const Task& task : t.tasks)
        if (const auto* c = std::get_if<Collective>(&task.op))
          if (c->kind == CollectiveKind::all_to_all) return c->elements;
    return std::int64_t{0};
  };
  // A rank's tokens x (eight query heads and a key and a value for each rank) x 4 dimensions.
  CHECK(exchanged(1, 4) == 4 * (8 + 2 * 4) * 4);
  CHECK(exchanged(2, 4) == 4 * (8 + 2 * 4) * 4);
  CHECK(exchanged(4, 4) == 4 * (8 + 2 * 4) * 4);
  CHECK(exchanged(8, 4) == 4 * (8 + 2 * 8) * 4);
  CHECK(exchanged(1, 2) == 8 * (8 + 2 * 2) * 4);
}
