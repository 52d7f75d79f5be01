#pragma once
// The `when` of entries in models/stacks: which plans they are for.

#include <string>

#include "models/base/json.hpp"

namespace tandem {

struct Plan;

/// Whether all conditions of an entry's `when` hold, or it has none. The conditions have no defect.
bool stack_entry_applies(const nlohmann::json& entry, const Plan& plan);
/// What is wrong with a `when`, "" if nothing.
std::string condition_defect(const nlohmann::json& when);

}  // namespace tandem
