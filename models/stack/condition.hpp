#pragma once
// Conditions and constraints of stack files: {"parallel.tensor": {"min": 2}}. Private to models/stack.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json.hpp"

namespace tandem {

struct Plan;
struct PlanField;

/// Whether a value satisfies all constraints of `rule` (allowed, except, min, max, multiple_of), and a list those of a condition (includes).
/// Null, a number that the plan does not have, is neither too small nor too large.
bool satisfied(const nlohmann::json& rule, const nlohmann::json& value, const Plan& plan);

/// Conditions of `when` on a plan, with their fields and constraints looked up once. Searches test them for many plans.
class Conditions {
 public:
  /// The conditions must have no defect.
  explicit Conditions(std::shared_ptr<const nlohmann::json> when);
  Conditions(const Conditions&) = delete;
  Conditions& operator=(const Conditions&) = delete;

  bool hold(const Plan& plan) const;

 private:
  struct One {
    const PlanField* field;                  ///< null: a derived value
    nlohmann::json (*derived)(const Plan&);
    const nlohmann::json* constraints;       ///< in when_
  };

  std::shared_ptr<const nlohmann::json> when_;
  std::vector<One> all_;
};

/// Why a `when` is not valid in a stack's file; empty if it is.
std::string condition_defect(const nlohmann::json& when);

bool is_constraint(std::string_view key);
/// Why a constraint's value is not valid; empty if it is.
std::string constraint_defect(std::string_view key, const nlohmann::json& value);

/// Whether a rule may name this field, of the plan file or derived.
bool is_rule_field(const std::string& path);
/// The field's value in a completed plan.
nlohmann::json value_of(const Plan& plan, const std::string& path);
/// The plan file's field that a message about `path` should name.
std::string blamed_field(const std::string& path);
/// The divisor that `multiple_of` means: a number, or the value of a field.
std::int64_t divisor(const Plan& plan, const nlohmann::json& of);

}  // namespace tandem
