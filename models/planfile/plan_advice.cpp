#include "models/planfile/plan_advice.hpp"

namespace tandem {

std::vector<std::string> plan_advice(const Plan& plan) {
  const TrainingSpec& t = plan.training;
  std::vector<std::string> notes;
  if (t.batch_rampup.start > 0)
    notes.push_back("step time is that of the full batch; ramp-up of " + std::to_string(t.batch_rampup.samples) + " samples before it");
  if (t.recompute == Recompute::selective && t.flash_attention && t.recompute_modules == std::vector<std::string>{"core_attention"})
    notes.push_back("attention is computed twice for little memory: flash attention keeps no scores that recomputing it would free");
  if (plan.stack.facts.whole_between_micro_batches)
    notes.push_back("weights and gradients are exchanged once a step and whole between micro-batches: pipelines of stack " + plan.stack.name);
  notes.insert(notes.end(), plan.ineffective.begin(), plan.ineffective.end());
  notes.insert(notes.end(), plan.stack.facts.notes.begin(), plan.stack.facts.notes.end());
  return notes;
}

}  // namespace tandem
