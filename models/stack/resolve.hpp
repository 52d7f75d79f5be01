#pragma once
// From a plan's `stack` to what that framework at that date does with the plan. Parsing calls these in this order.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/fields/plan_fields.hpp"

namespace tandem {

/// Fills `plan.stack.name` and `as_of` where the plan does not say them: the framework most used on the device, as of the newest code
/// that was read. A stack that the plan does not name refuses nothing. Needs `cluster.generation`. An unknown name stays as it is.
void choose_stack(Plan& plan, const Given& given);

/// Sets what the plan's stack does unless told otherwise, where the file does not say; returns `given` and those fields.
Given fill_stack_defaults(Plan& plan, const Given& given);

/// The name of the fusion set that the stack has for the plan. Throws ConfigError when its file names none.
std::string stack_fusion(const Plan& plan);

/// How the stack moves tensors between stages, unless the plan says otherwise.
struct StackTransfers {
  bool overlap = false;  ///< stages compute while they send
  bool scatter = false;  ///< tensor ranks send a share each
};
StackTransfers stack_transfers(const Plan& plan);

/// Whether the stack gives layers that are left over to its last stages; else the middle stages have them.
bool stack_remainder_last(const Plan& plan);
/// Whether the stack counts embedding, final norm and head as a layer each where it splits layers evenly over stages.
bool stack_ends_are_layers(const Plan& plan);

/// Adds the stack itself, the fusion set and the transfers to the defaults that `plan.stack.facts` remembers, where `given` has no such field.
void remember_choices(Plan& plan, const Given& given);

/// Fields that some condition of a stack's file asks for: what a plan is filled with depends on no others. Rules that only refuse are
/// not counted. Empty for an unknown name.
std::set<std::string> condition_fields(const std::string& stack);

/// Fills `plan.stack.facts` of a completed plan.
void resolve_stack(Plan& plan);

/// The rules of a framework that a completed plan breaks; `stack` need not be the plan's own. Without a month: the newest.
std::vector<Problem> stack_problems(const Plan& plan, const std::string& stack, std::optional<Month> as_of = std::nullopt);

/// The problem of CUDA graphs in a stack whose file says nothing of them.
std::optional<Problem> uncaptured(const Plan& plan);

}  // namespace tandem
