#pragma once
// Conditions and constraints of stack files: {"parallel.tensor": {"min": 2}}. Private to models/stack.

#include <string>
#include <string_view>

#include "models/base/json.hpp"

namespace tandem {

struct Plan;

/// Whether a value obeys all constraints (allowed, except, min, max, multiple_of) that stand in `rule`.
bool satisfied(const nlohmann::json& rule, const nlohmann::json& value, const Plan& plan);

/// Whether every condition of a `when` (or null) holds for the plan. The conditions have no defect.
bool conditions_hold(const nlohmann::json& when, const Plan& plan);

/// The reason why a `when` may not stand in a stack's file; empty if it may.
std::string condition_defect(const nlohmann::json& when);

bool is_constraint(std::string_view key);
/// The reason why a constraint's value may not stand; empty if it may.
std::string constraint_defect(std::string_view key, const nlohmann::json& value);

/// Whether a rule may be about this field: one of the plan file, or a derived one.
bool is_rule_field(const std::string& path);
/// The field's value in a completed plan.
nlohmann::json value_of(const Plan& plan, const std::string& path);
/// The field of the plan file that a message about `path` names.
std::string blamed_field(const std::string& path);
/// The number that `multiple_of` stands for.
std::int64_t divisor(const Plan& plan, const nlohmann::json& of);

}  // namespace tandem
