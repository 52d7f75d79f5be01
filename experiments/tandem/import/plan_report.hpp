#pragma once
// The report of `tandem import` about a framework's arguments: the sources of each field, and what is left out.

#include <string>

#include "models/arguments/imported_plan.hpp"
#include "models/plan/plan.hpp"

namespace tandem::import {

/// Fields that `document` leaves out and a rule of the stack gives `plan`, which was parsed from it: value by dotted path.
nlohmann::ordered_json filled_by_stack(const Plan& plan, const nlohmann::ordered_json& document);

/// `approximate`: what a plan cannot say is left out instead of refused. `filled`: see filled_by_stack; null for a plan that is refused.
std::string to_text(const arguments::ImportedPlan& plan, bool approximate, const nlohmann::ordered_json& filled);
std::string to_json(const arguments::ImportedPlan& plan, bool approximate, const nlohmann::ordered_json& filled);

}  // namespace tandem::import
