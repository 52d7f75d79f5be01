#include "models/stack/whole_units.hpp"

#include "models/plan/plan.hpp"
#include "models/stack/stack_statement.hpp"

namespace tandem {
namespace {

/// Whether there is anything to say: weights in the host's memory come for every micro-batch.
bool is_asked(const ParallelSpec& q) { return q.pipeline > 1 && q.zero_stage > 1 && !q.offload.parameters; }

}  // namespace

bool whole_between_micro_batches(const Plan& plan) {
  return is_asked(plan.parallel) && stack_states(plan, "whole_between_micro_batches");
}

}  // namespace tandem
