#include "models/plan/plan_traits.hpp"

#include <utility>

namespace tandem {
namespace {

/// Axes other than data with more than one rank, and the ZeRO stage.
std::string layout(const ParallelSpec& p) {
  std::string out;
  const auto add = [&](bool there, const std::string& word) {
    if (there) out += (out.empty() ? "" : ", ") + word;
  };
  add(p.tensor > 1, "tensor");
  add(p.pipeline > 1, "pipeline");
  add(p.context > 1, "context");
  add(p.expert > 1, "expert");
  add(p.zero_stage > 0, "ZeRO " + std::to_string(p.zero_stage));
  return out.empty() ? "data alone" : out;
}

/// Parts of layers that not every model has and whose kernels differ between frameworks.
std::vector<std::string> unusual_parts(const ModelSpec& m) {
  const std::pair<bool, const char*> parts[] = {
      {m.moe.num_experts > 0, "experts"},
      {m.moe.num_experts > 0 && m.linear_bias, "experts with biases"},
      {m.recurrence.heads > 0, "recurrences"},
      {m.indexer.heads > 0, "sparse attention"},
      {m.latent.kv_rank > 0, "latent attention"},
      {m.window.size > 0, "attention windows"},
      {m.attention_sinks, "attention sinks"},
      {m.attention_soft_cap > 0, "capped attention scores"},
      {m.attention_gate, "gated attention"},
      {m.mtp.num_layers > 0, "multi-token prediction"},
  };
  std::vector<std::string> out;
  for (const auto& [there, word] : parts)
    if (there) out.emplace_back(word);
  return out;
}

}  // namespace

PlanTraits traits_of(const Plan& plan) {
  PlanTraits out{{"stack " + plan.stack.name, "precision " + plan.training.precision, "layout " + layout(plan.parallel)},
                 plan.cluster.devices,
                 plan.stack.as_of};
  if (plan.parallel.tensor > 1 && plan.parallel.tensor_overlap) out.words.push_back("parallel.tensor_overlap of " + plan.stack.name);
  if (plan.training.lora.quantizes()) out.words.emplace_back("quantized frozen weights");
  for (std::string& part : unusual_parts(plan.model)) out.words.push_back(std::move(part));
  return out;
}

}  // namespace tandem
