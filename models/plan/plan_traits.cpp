#include "models/plan/plan_traits.hpp"

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

}  // namespace

PlanTraits traits_of(const Plan& plan) {
  PlanTraits out{{"stack " + plan.stack.name, "precision " + plan.training.precision, "layout " + layout(plan.parallel)},
                 plan.cluster.devices,
                 plan.stack.as_of};
  if (plan.parallel.tensor > 1 && plan.parallel.tensor_overlap) out.words.push_back("parallel.tensor_overlap of " + plan.stack.name);
  if (plan.model.moe.num_experts > 0) out.words.emplace_back("experts");
  if (plan.model.recurrence.heads > 0) out.words.emplace_back("recurrences");
  if (plan.model.indexer.heads > 0) out.words.emplace_back("sparse attention");
  return out;
}

}  // namespace tandem
