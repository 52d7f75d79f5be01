#pragma once
// The stack that a measurement record says its run had.

#include <string>

#include "models/base/json.hpp"

namespace tandem::program {

/// Sets the plan's stack: the name is the record's `framework`, else the plan's own; the date is the record's `as_of`.
/// Returns the framework if there is no stack of that name (the plan then keeps its own), else "".
/// A plan or stack of another kind stays as it is: parse_plan refuses it.
/// Throws ConfigError with `place` (file and line) and the key for an `as_of` or a `framework` that is none.
std::string set_stack(nlohmann::json& plan, const nlohmann::json& record, const std::string& place);

}  // namespace tandem::program
