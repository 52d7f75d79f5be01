#pragma once
// Defaults that a plan's stack has for a field, and why they do not hold for the plan.

#include <string>
#include <vector>

#include "models/plan/plan.hpp"

namespace tandem {

/// A default of a stack's file that does not hold for a plan.
struct UnmetDefault {
  std::string value;               ///< as JSON
  std::string source;
  std::vector<std::string> unmet;  ///< "device.generation is \"blackwell\", not \"ampere\" or \"hopper\""
};

/// The defaults of a completed plan's stack that would give `field` another value, in the order of the file. Empty for an unknown stack.
/// Leaves out those whose value is a multiple of a quantity that the rule's own range excludes.
std::vector<UnmetDefault> unmet_defaults(const Plan& plan, const std::string& field);

}  // namespace tandem
