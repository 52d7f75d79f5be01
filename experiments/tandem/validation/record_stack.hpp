#pragma once
// The stack of a measured run, as its record gives it.

#include <string>

#include "models/base/json.hpp"

namespace tandem::program {

/// Sets the plan's stack. Name: the record's `framework`, else the plan's own. Date: the record's
/// `as_of`. Returns the framework if there is no such stack (the plan then keeps its own), else
/// "". A plan or stack of the wrong JSON type stays unchanged: parse_plan refuses it. Throws
/// ConfigError with `place` (file and line) and key for an invalid `as_of` or `framework`.
std::string set_stack(nlohmann::json& plan, const nlohmann::json& record, const std::string& place);

}  // namespace tandem::program
