#include "models/stack/stack_modules.hpp"

#include "models/plan/plan.hpp"
#include "models/stack/stack_file.hpp"

namespace tandem {

std::set<std::string> stack_modules(const Plan& plan) {
  std::set<std::string> out;
  for (const ModulesEntry& entry : load_stack(plan.stack.name)->recompute_modules)
    if (entry.holds(plan.stack.as_of, plan)) out.insert(entry.modules.begin(), entry.modules.end());
  return out;
}

}  // namespace tandem
