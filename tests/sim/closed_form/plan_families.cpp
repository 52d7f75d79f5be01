#include "tests/sim/closed_form/plan_families.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "topology/plan_reader.hpp"

namespace tandem::sim::test {

using Json = nlohmann::json;

std::string name(PlanFamily f) {
  constexpr const char* names[] = {"dense", "fsdp", "experts", "context"};
  return names[static_cast<std::size_t>(f)];
}

std::string FamilyPlans::text() {
  const bool fsdp = family_ == PlanFamily::fsdp, experts = family_ == PlanFamily::experts, ring = family_ == PlanFamily::context;
  const int tensor = fsdp ? pick({1, 1, 1, 2, 4}) : pick({1, 2, 4, 8});
  const int pipeline = fsdp ? pick({1, 1, 1, 1, 2}) : pick({1, 2, 4, 8});
  const int context = ring ? pick({2, 4, 8}) : 1, data = pick({1, 2, 4, 8, 16, 32}) * (fsdp ? 2 : 1);
  const std::string schedule = pipeline == 1 ? "1f1b" : pick({"1f1b", "1f1b", "interleaved", "interleaved", "gpipe", "zb-h1"});
  const int chunks = schedule == "interleaved" ? pick({2, 3}) : 1,
            layers = pipeline * chunks * (pipeline == 1 ? pick({24, 40, 61, 80}) : chunks == 1 ? pick({5, 8, 12}) : pick({2, 4}));
  const int hidden = pick({2048, 4096, 5120, 8192}), micro = pick({1, 1, 2, 4}), batches = pipeline * pick({1, 4, 8, 16});
  const bool llama = pick({true, false});
  Json model{{"family", llama ? "llama" : "gpt"}, {"num_layers", layers}, {"hidden_size", hidden}, {"num_attention_heads", hidden / 128},
             {"vocab_size", 50257}, {"max_position_embeddings", 32768}};
  if (experts) {
    model["moe"] = {{"num_experts", pick({8, 16, 64})}, {"experts_per_token", 2}, {"ffn_hidden_size", pick({1024, 2048, 4096})},
                    {"num_shared_experts", pick({0, 0, 1})}, {"capacity_factor", pick({0.0, 1.25})}};
  }
  Json parallel{{"tensor", tensor}, {"pipeline", pipeline}, {"data", data}, {"context", context}, {"virtual_pipeline", chunks},
                {"schedule", schedule}, {"zero_stage", fsdp ? pick({2, 3, 3, 3}) : pick({0, 1})}, {"sequence_parallel", tensor > 1 && pick({true, false})},
                {"overlap_grad_reduce", pick({true, false})}};
  if (!fsdp && parallel["zero_stage"] == 1) parallel["overlap_param_gather"] = pick({true, false});
  if (fsdp && pick({true, false, false})) parallel["zero_group"] = pick({2, 8});
  if (schedule == "1f1b" || schedule == "interleaved") parallel["overlap_p2p"] = pick({true, false});
  if (experts) {
    parallel["expert"] = pick({1, 2, 4, 8});
    parallel["token_dispatcher"] = pick({"alltoall", "alltoall", "allgather"});
  }
  if (ring) parallel["context_mode"] = pick({"ring", "all_gather", "ulysses"});
  Json training{{"seq_length", pick({1024, 2048, 4096}) * (ring ? 2 : 1)}, {"micro_batch_size", micro},
                {"global_batch_size", static_cast<std::int64_t>(micro) * batches * data}, {"precision", "bf16"},
                {"flash_attention", true}, {"recompute", pick({"none", "selective", "full"})},
                {"optimizer", pick({"adamw", "adamw", "adamw", "lamb"})}};
  if (pick({true, false, false})) training["dtypes"] = {{"gradient_reduce", "bf16"}};
  const int devices = tensor * pipeline * data * context;
  Json cluster{{"preset", pick({"dgx-a100-80gb", "dgx-h100"})}, {"devices", std::max(8, devices)}};
  const char* stack = fsdp ? pick({"pytorch-fsdp", "torchtitan", "tandem"}) : pick({"megatron-core", "megatron-core", "megatron-deepspeed", "tandem"});
  return Json{{"stack", stack}, {"model", model}, {"parallel", parallel}, {"training", training}, {"cluster", cluster}}.dump();
}

Plan FamilyPlans::next() {
  for (;;) {
    try {
      Plan plan = parse_plan(text(), "random.json");
      require_lowerable(plan);
      if (plan.world_size() <= 64) return plan;
    } catch (const ConfigError&) {  // a head that does not divide, experts that do not fit their ranks, ...
    }
  }
}

}  // namespace tandem::sim::test
