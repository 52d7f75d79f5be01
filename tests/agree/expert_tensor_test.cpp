// Experts cut over other ranks than everything else (Megatron-Core's expert tensor parallel size): every layout trains like one
// rank and does what was simulated.

#include <nlohmann/json.hpp>

#include "reports/timeline/run_routing.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/agree/ledger.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

constexpr int kSteps = 2;

// Biases, a shared expert and a layer without experts in between; capacity 2 has room for every choice.
json model_of(double capacity, double aux_loss) {
  return {{"family", "gpt"}, {"num_layers", 4}, {"hidden_size", 24}, {"num_attention_heads", 4}, {"ffn_hidden_size", 40},
          {"vocab_size", 37}, {"pad_vocab_to", 16},
          {"moe", {{"num_experts", 4}, {"experts_per_token", 2}, {"ffn_hidden_size", 16}, {"num_shared_experts", 1},
                   {"layer_frequency", 2}, {"rows_bound", 4}, {"capacity_factor", capacity}, {"aux_loss", aux_loss}}}};
}

struct Layout {
  const char* parallel;
  const char* training = "{}";
};

Plan plan_of(const json& model, const Layout& l, const char* optimizer = "adamw") {
  json parallel = json::parse(l.parallel);
  std::int64_t ranks = 1;
  for (const char* axis : {"tensor", "pipeline", "data", "context"}) ranks *= parallel.value(axis, std::int64_t{1});
  if (parallel.value("tensor", 1) > 1) parallel["sequence_parallel"] = true;
  json training = {{"seq_length", 8}, {"micro_batch_size", 1}, {"global_batch_size", 8}, {"precision", "fp64"}, {"epsilon", 1e-4},
                   {"dropout", {{"hidden", 0.1}, {"attention", 0.1}}}, {"clip_grad", 0.3}, {"optimizer", optimizer}};
  training.update(json::parse(l.training));
  const json plan = {{"model", model}, {"parallel", parallel}, {"training", training},
                     {"cluster", {{"preset", "cpu-host"}, {"devices", ranks}}}};
  return parse_plan(plan.dump(), "expert_tensor.json");
}

const Layout kLayouts[] = {
    {R"({"tensor": 4, "expert": 2})"},                                            // expert ranks on the tensor axis alone
    {R"({"tensor": 4, "expert": 4})"},
    {R"({"tensor": 4, "expert": 1, "expert_tensor": 2})"},                        // two copies of every expert on one data rank
    {R"({"tensor": 2, "data": 2, "expert": 4})", R"({"recompute": "full"})"},
    {R"({"tensor": 2, "data": 4, "expert": 4, "expert_tensor": 1, "overlap_grad_reduce": true, "bucket_bytes": "1 B"})"},
    {R"({"tensor": 2, "data": 2, "expert_tensor": 4})"},                          // cut over more ranks than everything else
    {R"({"data": 4, "expert": 2, "expert_tensor": 2})"},                          // where nothing else is cut
    {R"({"tensor": 4, "pipeline": 2, "expert": 2, "rank_order": "tp-cp-ep-pp-dp"})",
     R"({"recompute": "selective", "recompute_modules": ["moe"]})"},
    {R"({"tensor": 2, "pipeline": 2, "data": 2, "expert": 4, "rank_order": "tp-cp-ep-pp-dp"})"},
    {R"({"tensor": 4, "pipeline": 2, "expert": 2, "schedule": "zb-h1"})",
     R"({"recompute": "selective", "recompute_modules": ["shared_experts", "mlp"]})"},
    {R"({"tensor": 4, "pipeline": 2, "expert_tensor": 2, "schedule": "zb-h2"})"},
    {R"({"tensor": 2, "data": 4, "expert": 2, "expert_tensor": 1, "zero_stage": 1})"},
    {R"({"tensor": 2, "data": 4, "expert": 2, "expert_tensor": 1, "zero_stage": 2})"},
    {R"({"tensor": 2, "data": 4, "expert": 4, "expert_tensor": 1, "zero_stage": 3, "unit_copies": "per_parameter"})"},
    {R"({"tensor": 4, "expert_tensor": 1, "zero_stage": 1})"},                    // nothing but experts is sharded
    // Sharding groups of whole sets of experts: each part of an expert on two ranks of a group, or on one, and both groups have it.
    {R"({"tensor": 2, "data": 4, "expert": 2, "expert_tensor": 1, "zero_stage": 1, "zero_group": 2})"},
    {R"({"tensor": 2, "data": 4, "expert": 2, "expert_tensor": 1, "zero_stage": 2, "zero_group": 2, "overlap_grad_reduce": true})"},
    {R"({"tensor": 2, "data": 4, "expert": 2, "expert_tensor": 1, "zero_stage": 3, "zero_group": 2})"},
    {R"({"tensor": 2, "data": 4, "expert": 2, "zero_stage": 1, "zero_group": 2, "overlap_grad_reduce": true, "bucket_bytes": "1 B"})"},
    {R"({"data": 4, "expert": 2, "zero_stage": 2, "zero_group": 2})"},
    {R"({"tensor": 2, "data": 4, "expert": 2, "zero_stage": 3, "zero_group": 2, "overlap_grad_reduce": true})"},
    {R"({"data": 8, "expert": 2, "zero_stage": 3, "zero_group": 4, "overlap_param_gather": true})"},
    {R"({"data": 4, "expert_tensor": 2, "zero_stage": 1, "zero_group": 2})"},
};

// Context ranks see parts of sequences, over which an auxiliary loss would be another one.
const Layout kContextLayouts[] = {
    {R"({"tensor": 2, "context": 2, "expert": 4})"},
    {R"({"context": 2, "data": 2, "expert": 2, "expert_tensor": 2})"},
    {R"({"tensor": 2, "context": 2, "data": 2, "expert": 2, "expert_tensor": 4, "zero_stage": 1})"},
    {R"({"context": 2, "data": 4, "expert": 2, "zero_stage": 2, "zero_group": 2})"},
};

void check_like(const exec::RunResult& one, const Plan& plan) {
  tests::check_trains_like(one, plan);
  if (depends_on_routing(plan)) tests::check_replayed_books(plan, lower(plan));
}

}  // namespace

TEST_CASE("experts cut over other ranks than the rest train like one rank, and do what was simulated", "[emulated]") {
  const double capacity = GENERATE(0.0, 2.0);
  const json model = model_of(capacity, 0.02);
  const exec::RunResult one = tests::train(plan_of(model, {"{}"}), kSteps);
  CHECK(one.steps.front().grad_norm > 0.3);  // clipping is at work
  for (const Layout& l : kLayouts) {
    INFO(l.parallel << " capacity " << capacity);
    check_like(one, plan_of(model, l));
  }
}

TEST_CASE("experts over tensor and context ranks train like one rank, and do what was simulated") {
  const double capacity = GENERATE(0.0, 2.0);
  const json model = model_of(capacity, 0);
  const exec::RunResult one = tests::train(plan_of(model, {"{}"}), kSteps);
  for (const Layout& l : kContextLayouts) {
    INFO(l.parallel << " capacity " << capacity);
    check_like(one, plan_of(model, l));
  }
}

TEST_CASE("an optimizer of tensors' norms counts every part of an expert once, whoever has it") {
  const json model = model_of(0, 0.02);
  const exec::RunResult one = tests::train(plan_of(model, {"{}"}, "lamb"), kSteps);
  for (const char* parallel : {R"({"tensor": 4, "expert": 2})", R"({"tensor": 2, "data": 2, "expert_tensor": 4})",
                               R"({"tensor": 2, "data": 4, "expert": 2, "expert_tensor": 1, "zero_stage": 1})"}) {
    INFO(parallel);
    check_like(one, plan_of(model, {parallel}, "lamb"));
  }
}

// Sums over tensor ranks of what they use on own rows are made once a step, so only experts are alike bit for bit.
TEST_CASE("experts over tensor ranks have the same gradients bit for bit on data ranks as on one with as many micro-batches", "[emulated]") {
  const json model = model_of(0, 0.02);
  const char* training = R"({"global_batch_size": 2})";
  const exec::RunResult one = tests::train(plan_of(model, {R"({"tensor": 4, "expert": 2, "expert_tensor": 2})", training}), 1);
  const Layout layout{R"({"tensor": 4, "data": 2, "expert": 2, "expert_tensor": 2})", training};
  const exec::RunResult two = tests::train(plan_of(model, layout), 1);
  std::size_t experts = 0;
  for (std::size_t t = 0; t < one.gradients[0].size(); ++t) {
    if (one.gradients[0][t].name.find(".experts.") == std::string::npos) continue;
    INFO(one.gradients[0][t].name);
    CHECK((two.gradients[0][t].values == one.gradients[0][t].values));
    ++experts;
  }
  CHECK(experts == 2 * 4);  // two layers, two matrices with a bias each
}
