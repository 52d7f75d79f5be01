#include "models/stack/stack_splits.hpp"

#include "models/plan/plan.hpp"
#include "models/stack/stack_file.hpp"

namespace tandem {

StackSplits stack_splits(const Plan& plan) {
  if (!is_stack(plan.stack.name)) return {};
  const auto file = load_stack(plan.stack.name);
  const SplitsEntry* entry = first_that_holds(file->stage_layers, plan.stack.as_of, plan);
  return entry == nullptr ? StackSplits{} : entry->of;
}

}  // namespace tandem
