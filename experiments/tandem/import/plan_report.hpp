#pragma once
// The report of `tandem import` about a framework's arguments: the sources of each field, and what is left out.

#include <string>

#include "models/arguments/imported_plan.hpp"

namespace tandem::import {

/// `approximate`: what a plan cannot say is left out instead of refused.
std::string to_text(const arguments::ImportedPlan& plan, bool approximate);
std::string to_json(const arguments::ImportedPlan& plan, bool approximate);

}  // namespace tandem::import
