#pragma once
// Resolves a plan's `stack`: what that framework, at that date, does with the plan. Parsing calls these functions in this order.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/fields/plan_fields.hpp"

namespace tandem {

/// Fills `plan.stack.name` and `as_of` if the plan does not give them: the most used framework of the device, at the
/// newest date of the code read. Such a stack refuses nothing. Needs `cluster.generation`. An unknown name is kept.
void choose_stack(Plan& plan, const Given& given);

/// Fills fields that the file does not give with the stack's defaults. Returns `given` and the filled fields.
Given fill_stack_defaults(Plan& plan, const Given& given);

/// Name of the stack's fusion set for the plan. Throws ConfigError if its file names none.
std::string stack_fusion(const Plan& plan);

/// How the stack transfers tensors between stages, by default.
struct StackTransfers {
  bool overlap = false;  ///< stages compute while they send
  bool scatter = false;  ///< tensor ranks send a share each
};
StackTransfers stack_transfers(const Plan& plan);

/// Whether the stack gives remainder layers to its last stages, rather than to the middle ones.
bool stack_remainder_last(const Plan& plan);
/// Whether embedding, final norm and head count as one layer each when the stack splits layers evenly over stages.
bool stack_ends_are_layers(const Plan& plan);

/// Adds the stack, fusion set and transfers to the defaults recorded in `plan.stack.facts`, unless `given` has these fields.
void remember_choices(Plan& plan, const Given& given);

/// Fields that conditions of a stack's file read. Only these influence how a plan is filled.
/// Conditions of rules that only refuse plans are not counted. Empty for an unknown name.
std::set<std::string> condition_fields(const std::string& stack);

/// Fills `plan.stack.facts` of a completed plan.
void resolve_stack(Plan& plan);

/// Rules of a framework that a completed plan breaks. `stack` may differ from the plan's own. No month: the newest.
std::vector<Problem> stack_problems(const Plan& plan, const std::string& stack, std::optional<Month> as_of = std::nullopt);
/// Whether a completed plan breaks a rule of its own stack.
bool breaks_stack_rule(const Plan& plan);

/// The problem of using CUDA graphs with a stack whose file does not describe them.
std::optional<Problem> uncaptured(const Plan& plan);

/// Why tasks of a stack that keeps no rows of experts cannot be performed: gradients of the router's weights read these rows.
std::optional<Problem> unkept_rows(const Plan& plan);

}  // namespace tandem
