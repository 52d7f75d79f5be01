// What tells plans apart by whether a run like it was ever measured.

#include <algorithm>
#include <string>

#include "models/plan/plan_traits.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;

namespace {

PlanTraits traits(const std::string& model) {
  return traits_of(parse_plan(std::string(R"({"model": {"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 256, "linear_bias": false, )") +
                                  R"("position_embedding": "rope", "qkv_bias": false)" + model +
                                  R"(}, "training": {"seq_length": 64, "micro_batch_size": 1, "global_batch_size": 2},
                                     "parallel": {"data": 2, "zero_stage": 1}, "cluster": {"preset": "cpu-host", "devices": 2}})",
                              "traits.json"));
}

bool has(const PlanTraits& t, const std::string& word) { return std::find(t.words.begin(), t.words.end(), word) != t.words.end(); }

}  // namespace

TEST_CASE("traits name the stack, the precision, the layout, and layers of kinds that few runs have") {
  const PlanTraits plain = traits("");
  CHECK(plain.devices == 2);
  CHECK(has(plain, "stack tandem"));
  CHECK(has(plain, "layout ZeRO 1"));
  CHECK(plain.words.size() == 3);
  CHECK(plain.positions == 64);
  CHECK(has(traits(R"(, "moe": {"num_experts": 4})"), "experts"));
  CHECK(has(traits(R"(, "recurrence": {"heads": 4})"), "recurrences"));
  CHECK(has(traits(R"(, "latent": {"kv_rank": 16, "query_rank": 16, "rotary_dim": 8}, "indexer": {"heads": 2}, "head_dim": 24)"),
            "sparse attention"));
}

TEST_CASE("traits name ways to train and to split the work that few runs have") {
  const auto of = [](const std::string& training, const std::string& parallel) {
    return traits_of(parse_plan(std::string(R"({"model": {"num_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 256,
                                                         "moe": {"num_experts": 4}},
                                               "training": {"seq_length": 64, "micro_batch_size": 1, "global_batch_size": 8)") +
                                    training + R"(}, "parallel": {)" + parallel + R"(}, "cluster": {"preset": "cpu-host", "devices": 4}})",
                                "traits.json"));
  };
  CHECK(has(of(R"(, "lora": {"rank": 8})", R"("data": 4)"), "LoRA"));
  CHECK(has(of(R"(, "optimizer": "muon")", R"("data": 4)"), "optimizer muon"));
  CHECK(has(of("", R"("data": 4, "offload": {"optimizer": true})"), "offloading"));
  CHECK(has(of("", R"("data": 2, "pipeline": 2, "schedule": "zb-h1")"), "schedule zb-h1"));
  CHECK(has(of("", R"("data": 2, "context": 2, "context_mode": "ulysses")"), "context mode ulysses"));
  CHECK(has(of("", R"("data": 4, "expert": 4, "token_dispatcher": "deepep")"), "token dispatcher deepep"));
  CHECK_FALSE(has(of("", R"("data": 4, "expert": 4)"), "token dispatcher alltoall"));
}

TEST_CASE("traits name parts of attention and of experts that few models have") {
  CHECK(has(traits(R"(, "attention_sinks": true)"), "attention sinks"));
  CHECK(has(traits(R"(, "window": {"size": 16})"), "attention windows"));
  CHECK(has(traits(R"(, "attention_soft_cap": 50)"), "capped attention scores"));
  CHECK(has(traits(R"(, "mtp": {"num_layers": 1})"), "multi-token prediction"));
  CHECK_FALSE(has(traits(R"(, "moe": {"num_experts": 4})"), "experts with biases"));
}
