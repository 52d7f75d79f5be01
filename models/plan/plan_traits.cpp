#include "models/plan/plan_traits.hpp"

#include <algorithm>
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

using Parts = std::vector<std::pair<bool, std::string>>;

/// Parts of layers that not every model has and whose kernels differ between frameworks.
Parts unusual_parts(const ModelSpec& m) {
  return {
      {m.family == Family::bert || m.family == Family::t5, "model family " + std::string(name(m.family))},
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
}

/// Ways to split the work that change which transfers run, and when.
Parts unusual_ways(const ParallelSpec& p) {
  return {
      {p.pipeline > 1, "schedule " + std::string(name(p.schedule))},
      {p.context > 1, "context mode " + std::string(name(p.context_mode))},
      {p.expert > 1 && p.token_dispatcher != TokenDispatcher::alltoall, "token dispatcher " + std::string(name(p.token_dispatcher))},
      {p.expert > 1 && p.overlap_experts, "parallel.overlap_experts"},
      {p.offload.optimizer || p.offload.parameters, "offloading"},
      {!p.offload.activations.empty(), "offloaded activations"},
  };
}

Parts unusual_training(const TrainingSpec& t) {
  return {
      {t.lora.here(), "LoRA"},
      {t.lora.quantizes(), "quantized frozen weights"},
      {t.optimizer.kind != OptimizerKind::adamw, "optimizer " + std::string(name(t.optimizer.kind))},
      {t.documents == Documents::separate, "separate documents"},
      {t.cuda_graphs != CudaGraphs::none, "CUDA graphs"},
  };
}

}  // namespace

PlanTraits traits_of(const Plan& plan) {
  PlanTraits out{{"stack " + plan.stack.name, "precision " + plan.training.precision, "layout " + layout(plan.parallel)},
                 plan.cluster.devices,
                 plan.stack.as_of,
                 std::max(plan.training.seq_length, plan.training.decoder_seq_length)};
  if (plan.parallel.tensor > 1 && plan.parallel.tensor_overlap) out.words.push_back("parallel.tensor_overlap of " + plan.stack.name);
  for (const Parts& parts : {unusual_parts(plan.model), unusual_ways(plan.parallel), unusual_training(plan.training)})
    for (const auto& [there, word] : parts)
      if (there) out.words.push_back(word);
  return out;
}

}  // namespace tandem
