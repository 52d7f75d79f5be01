// Two levels of context ranks: neighbours exchange heads (Ulysses), groups of them pass keys round a ring or gather them.

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

Plan plan_of(const json& model, const std::string& mode, const Layout& l) {
  json parallel = json::parse(l.parallel);
  std::int64_t ranks = 1;
  for (const char* axis : {"tensor", "pipeline", "data", "context"}) ranks *= parallel.value(axis, std::int64_t{1});
  parallel["context_mode"] = mode;
  json training = {{"seq_length", 16}, {"micro_batch_size", 1}, {"global_batch_size", 4}, {"precision", "fp64"}, {"epsilon", 1e-4},
                   {"flash_attention", true}, {"dropout", {{"hidden", 0.1}, {"attention", 0.1}}}};
  training.update(json::parse(l.training));
  const json plan = {{"model", model}, {"parallel", parallel}, {"training", training},
                     {"cluster", {{"preset", "cpu-host"}, {"devices", ranks}}}};
  return parse_plan(plan.dump(), "levels.json");
}

json model_of(const json& more = json::object()) {
  json model = {{"family", "llama"}, {"num_layers", 2}, {"hidden_size", 32}, {"num_attention_heads", 8}, {"num_kv_heads", 8},
                {"ffn_hidden_size", 40}, {"vocab_size", 37}, {"pad_vocab_to", 16}};
  model.update(more);
  return model;
}

const Layout kLayouts[] = {
    {R"({"context": 4, "ulysses": 2})"},
    {R"({"context": 8, "ulysses": 2})", R"({"micro_batch_size": 2})"},
    {R"({"context": 8, "ulysses": 4})", R"({"recompute": "full"})"},
    {R"({"tensor": 2, "context": 4, "ulysses": 2, "sequence_parallel": true})"},
    {R"({"pipeline": 2, "context": 4, "ulysses": 2, "schedule": "zb-h1"})"},
    {R"({"data": 2, "context": 4, "ulysses": 2, "zero_stage": 3, "rank_order": "cp-tp-ep-pp-dp"})"},
};

/// The tasks of all templates with the sizes of their collectives.
std::vector<std::string> tasks(const Plan& plan) {
  std::vector<std::string> out;
  for (const Template& t : lower(plan).templates)
    for (const Task& task : t.tasks) {
      const auto* c = std::get_if<Collective>(&task.op);
      out.push_back(t.name + " " + task.name + (c == nullptr ? "" : " " + std::string(name(c->group)) + " " + std::to_string(c->elements)));
    }
  return out;
}

}  // namespace

TEST_CASE("two levels of context ranks train like one rank, and do what was simulated") {
  const json more = GENERATE(json::object(), json{{"num_kv_heads", 2}, {"qk_norm", "head"}, {"value_dim", 6}, {"qkv_bias", true}},
                             json{{"num_kv_heads", 1}}, json{{"position_embedding", "alibi"}, {"attention_soft_cap", 20.0}});
  const json model = model_of(more);
  const exec::RunResult one = tests::train(plan_of(model, "ring", {"{}"}), kSteps);
  for (const char* mode : {"ring", "all_gather"})
    for (const Layout& l : kLayouts) {
      INFO(mode << " " << more.dump() << ", " << l.parallel << " " << l.training);
      tests::check_trains_like(one, plan_of(model, mode, l));
    }
}

TEST_CASE("two levels train like one rank with sinks, a gate, separate documents, latent attention and MTP") {
  const std::pair<json, const char*> all[] = {
      {{{"attention_sinks", true}, {"num_kv_heads", 4}}, "{}"},
      {{{"attention_gate", true}, {"num_kv_heads", 4}}, "{}"},
      {json::object(), R"({"documents": "separate"})"},
      {{{"latent", {{"kv_rank", 12}, {"rotary_dim", 4}}}, {"head_dim", 8}}, "{}"},
      {{{"mtp", {{"num_layers", 1}}}}, "{}"},
  };
  for (const auto& [more, training] : all) {
    const json model = model_of(more);
    const exec::RunResult one = tests::train(plan_of(model, "ring", {"{}", training}), kSteps);
    for (const char* mode : {"ring", "all_gather"}) {
      INFO(mode << " " << more.dump() << " " << training);
      tests::check_trains_like(one, plan_of(model, mode, {R"({"context": 4, "ulysses": 2})", training}));
    }
  }
}

TEST_CASE("two levels that gather keys train like one rank with a score matrix and with windows") {
  const char* scores = R"({"flash_attention": false})";
  const std::pair<json, const char*> all[] = {
      {json::object(), scores},
      {{{"num_kv_heads", 1}}, scores},
      {{{"window", {{"size", 5}, {"layers", "wf"}}}}, "{}"},
      {{{"window", {{"size", 5}}}, {"num_kv_heads", 2}}, scores},
  };
  for (const auto& [more, training] : all) {
    const json model = model_of(more);
    const exec::RunResult one = tests::train(plan_of(model, "all_gather", {"{}", training}), kSteps);
    for (const char* parallel : {R"({"context": 4, "ulysses": 2})", R"({"context": 8, "ulysses": 4})"}) {
      INFO(parallel << " " << more.dump() << " " << training);
      tests::check_trains_like(one, plan_of(model, "all_gather", {parallel, training}));
    }
  }
}

TEST_CASE("one level alone is the same as two, the other of one rank") {
  for (const char* mode : {"ring", "all_gather"}) {
    CHECK(tasks(plan_of(model_of(), mode, {R"({"context": 4, "ulysses": 4})"})) ==
          tasks(plan_of(model_of(), "ulysses", {R"({"context": 4})"})));
    CHECK(tasks(plan_of(model_of(), mode, {R"({"context": 4, "ulysses": 1})"})) == tasks(plan_of(model_of(), mode, {R"({"context": 4})"})));
  }
}
