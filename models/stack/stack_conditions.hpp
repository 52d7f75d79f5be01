#pragma once
// Files in models/stacks, and the `when` of their entries: which plans they are for.

#include <memory>
#include <string>

#include "models/base/json.hpp"

namespace tandem {

struct Plan;

/// A stack's file. A plan asks for it again and again: it is parsed only where its text is not the one that the thread had before.
std::shared_ptr<const nlohmann::json> read_stack(const std::string& path);

/// Whether all conditions of an entry's `when` hold, or it has none. The conditions have no defect.
bool stack_entry_applies(const nlohmann::json& entry, const Plan& plan);
/// What is wrong with a `when`, "" if nothing.
std::string condition_defect(const nlohmann::json& when);

}  // namespace tandem
