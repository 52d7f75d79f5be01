#pragma once
// Plans of tests under other stacks than the one that they were read with.

#include <string>

#include "models/plan/plan.hpp"
#include "models/stack/resolve.hpp"
#include "models/stack/stack_file.hpp"

namespace tandem::tests {

/// Gives the plan a stack as of the newest code that its file was read from, on devices of `generation` where one is named. Its
/// fields stay as they are.
inline void set_stack(Plan& plan, const std::string& stack, const std::string& generation = "") {
  plan.stack.name = stack;
  plan.stack.as_of = load_stack(stack)->read_until;
  if (!generation.empty()) plan.cluster.generation = generation;
  resolve_stack(plan);
}

/// The same in a copy.
inline Plan under(Plan plan, const std::string& stack, const std::string& generation = "") {
  set_stack(plan, stack, generation);
  return plan;
}

}  // namespace tandem::tests
