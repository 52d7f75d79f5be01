// Layers with a recurrence, of one sublayer, and with a gate of attention's output: any layout trains like one rank and as simulated.

#include <string>
#include <vector>

#include "tests/agree/closeness.hpp"
#include "tests/agree/features.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/agree/ledger.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;

namespace {

const std::string kFp64 = R"({"training": {"precision": "fp64"}})";
const std::string kDelta = R"({"model": {"family": "llama", "num_kv_heads": 1, "qk_norm": "head", "attention_gate": true, "qkv_bias": true,
    "recurrence": {"heads": 8, "key_heads": 4, "key_dim": 3, "value_dim": 5, "conv_width": 3, "layers": "rrra"}}})";
const std::string kMamba = R"({"model": {"family": "llama", "num_kv_heads": 2, "sublayers": "mfmf",
    "recurrence": {"rule": "mamba2", "heads": 8, "key_heads": 4, "key_dim": 3, "value_dim": 5, "conv_width": 3, "conv_bias": true,
                   "layers": "rraa"}}})";

Plan plan_of(const std::string& model, const std::string& layout, std::int64_t micro_batches) {
  return parse_plan(tests::small_json({model, layout, kFp64}, micro_batches), "recurrence");
}

/// Each layout, and its data ranks.
const std::vector<std::pair<std::string, std::int64_t>> kLayouts{
    {R"({"parallel": {"tensor": 4, "sequence_parallel": true}})", 1},
    {R"({"parallel": {"pipeline": 2, "schedule": "interleaved", "virtual_pipeline": 2}})", 1},
    {R"({"parallel": {"pipeline": 2, "schedule": "zb-h1"}})", 1},
    {R"({"parallel": {"pipeline": 2, "schedule": "dualpipe-v"}})", 1},
    {R"({"parallel": {"data": 3, "zero_stage": 3}})", 3},
    {R"({"parallel": {"tensor": 2, "pipeline": 2, "data": 2, "zero_stage": 1, "sequence_parallel": true}})", 2},
    {R"({"parallel": {"tensor": 2, "tensor_overlap": true}, "training": {"recompute": "full"}})", 1},
    {R"({"training": {"recompute": "selective", "recompute_modules": ["operations"], "recompute_products": true}})", 1},
    {R"({"parallel": {"tensor": 4}, "training": {"fusion": "megatron", "flash_attention": true}})", 1}};

/// Context ranks in every mode of attention. Four of them on two tensor ranks are more than key heads of one.
const std::vector<std::pair<std::string, std::int64_t>> kContexts{
    {R"({"parallel": {"context": 2, "context_mode": "ring"}})", 1},
    {R"({"parallel": {"context": 4, "context_mode": "ring"}, "training": {"recompute": "full"}})", 1},
    {R"({"parallel": {"context": 4, "context_mode": "ulysses"}, "training": {"micro_batch_size": 2}})", 2},
    {R"({"parallel": {"context": 2, "context_mode": "ulysses"}, "training": {"flash_attention": true, "fusion": "megatron"}})", 1},
    {R"({"parallel": {"context": 4, "context_mode": "all_gather"},
         "training": {"recompute": "selective", "recompute_modules": ["core_attention", "norm"]}})", 1},
    {R"({"parallel": {"tensor": 2, "context": 2, "context_mode": "all_gather", "sequence_parallel": true, "zero_stage": 1}})", 1},
    {R"({"parallel": {"tensor": 2, "context": 4, "context_mode": "ring"}})", 1},
    {R"({"parallel": {"context": 4, "context_mode": "ring", "ulysses": 2}, "training": {"flash_attention": true}})", 1},
    {R"({"parallel": {"context": 4, "context_mode": "all_gather", "ulysses": 2, "zero_stage": 2}})", 1},
    {R"({"parallel": {"tensor": 2, "context": 2, "context_mode": "ulysses", "tensor_overlap": true}})", 1},
    {R"({"parallel": {"pipeline": 2, "context": 2, "schedule": "zb-h1", "zero_stage": 2}})", 1},
    {R"({"parallel": {"data": 2, "context": 2, "context_mode": "ulysses", "zero_stage": 3}, "training": {"recompute": "full"}})", 2},
    {R"({"parallel": {"context": 2}, "training": {"deterministic": true, "fill_uninitialized_memory": true}})", 1}};

void check(const std::string& model, const std::vector<std::pair<std::string, std::int64_t>>& layouts) {
  for (const auto& [layout, data] : layouts) {
    INFO(layout);
    tests::check_trains_like(tests::train(plan_of(model, "{}", 4 * data), 2), plan_of(model, layout, 4));
  }
}

}  // namespace

TEST_CASE("gated DeltaNet beside attention with a gate trains like one rank in any layout, and as simulated", "[emulated]") {
  check(kDelta, kLayouts);
}

TEST_CASE("Mamba 2 in layers of one sublayer trains like one rank in any layout, and as simulated", "[emulated]") {
  check(kMamba, kLayouts);
}

TEST_CASE("context ranks share the heads of gated DeltaNet and train like one rank, and as simulated", "[emulated]") {
  check(kDelta, kContexts);
}

TEST_CASE("context ranks share the heads of Mamba 2 and train like one rank, and as simulated", "[emulated]") {
  check(kMamba, kContexts);
}

TEST_CASE("context ranks train recurrences like one rank in fp32, too") {
  // Bounds of the generated cases (generated_test), twice as wide for gradients of a recurrence.
  for (const std::string& model : {kDelta, kMamba})
    for (const char* layout : {R"({"parallel": {"context": 2, "context_mode": "ring"}})", R"({"parallel": {"context": 4, "context_mode": "ulysses"}})",
                               R"({"parallel": {"tensor": 2, "context": 4, "context_mode": "all_gather"}})"}) {
      INFO(layout);
      const auto run = [&](const std::string& ranks) {
        return tests::train(parse_plan(tests::small_json({model, ranks, R"({"training": {"precision": "fp32"}})"}, 4), "recurrence"), 2);
      };
      const exec::RunResult one = run("{}"), shared = run(layout);
      CHECK(tests::loss_error(shared, one) <= 2e-6);
      CHECK(tests::gradient_error(shared, one) <= 2e-5);
    }
}

TEST_CASE("sequences of several chunks train like one rank", "[emulated]") {
  const std::string model = R"({"model": {"family": "llama", "recurrence": {"heads": 4, "key_heads": 2, "key_dim": 3, "value_dim": 5, "layers": "ra"}},
                               "training": {"seq_length": 156}})";
  const auto one = tests::train(plan_of(model, "{}", 2), 2);
  tests::check_trains_like(one, plan_of(model, R"({"parallel": {"tensor": 2, "sequence_parallel": true}})", 2));
  tests::check_trains_like(one, plan_of(model, R"({"parallel": {"context": 2}})", 2));
}
