// What is left of a stack without the entries whose evidence is of some sources.

#include "models/base/left_out.hpp"

#include "models/fields/fusion_file.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;

namespace {

Plan of(const std::string& stack) {
  return parse_plan(R"({"model": {"family": "gpt", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 256},
                        "training": {"seq_length": 16, "micro_batch_size": 1, "global_batch_size": 8, "precision": "bf16"},
                        "cluster": {"preset": "dgx-a100-80gb", "devices": 1}, "stack": ")" + stack + "\"}", "test.json");
}

Plan without(const std::string& repository, const std::string& stack) {
  const Sources sources{{}, {repository}};
  const LeftOut left_out(sources);
  return of(stack);
}

}  // namespace

TEST_CASE("a default without its evidence gives way to the next that applies") {
  REQUIRE(of("megatron-core").training.dropout.hidden == 0.1);
  CHECK(without("NVIDIA/Megatron-LM", "megatron-core").training.dropout.hidden == 0);
  CHECK(without("pytorch/torchtitan", "megatron-core").training.dropout.hidden == 0.1);
  CHECK(of("megatron-core").training.dropout.hidden == 0.1);  // what was left out before is back
}

TEST_CASE("a stack whose every fusion set is left out has those of the stack that stands in, and its host's operations") {
  const Plan plain = of("pytorch-ddp"), plan = without("NVIDIA/Megatron-LM", "megatron-core");
  REQUIRE(of("megatron-core").training.fusion.name != plain.training.fusion.name);
  CHECK(plan.training.fusion.name == plain.training.fusion.name);
  CHECK(plan.stack.facts.host_operations.otherwise == plain.stack.facts.host_operations.otherwise);
  CHECK(without("InternLM/InternEvo", "internevo").training.fusion.name == plain.training.fusion.name);
}

TEST_CASE("a fusion set goes without facts whose evidence is left out") {
  REQUIRE(fusion_set("internevo").norm_widened);
  const Sources sources{{}, {"InternLM/InternEvo"}};
  const LeftOut left_out(sources);
  CHECK_FALSE(fusion_set("internevo").norm_widened);
}
