#include "models/stack/gradient_buckets.hpp"

#include "models/plan/plan.hpp"
#include "models/stack/stack_file.hpp"

namespace tandem {

GradientBuckets gradient_buckets(const Plan& plan) {
  const ParallelSpec& p = plan.parallel;
  const bool whole = p.zero_stage < 2, copied = whole && p.data * p.context > 1;
  const bool chunks = whole && p.pipeline > 1 && p.schedule == ScheduleKind::interleaved && p.overlap_grad_reduce;
  if ((!copied && !chunks) || !is_stack(plan.stack.name)) return {};
  const auto stack = load_stack(plan.stack.name);
  const auto holds = [&](const std::vector<StackEntry>& list) { return first_that_holds(list, plan.stack.as_of, plan) != nullptr; };
  return {copied && holds(stack->bucket_copies), chunks && holds(stack->aligned_reductions)};
}

}  // namespace tandem
