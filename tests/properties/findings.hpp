#pragma once
// Collects the plans that break a property.

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/properties/stack_plans.hpp"

namespace tandem::tests {

/// Step times may differ by this share beyond the change of the work. The alignment of tensors and the cut into buckets may change.
inline constexpr double kNear = 0.01;

class Findings {
 public:
  /// Compares the step time of a changed plan with the original's; `growth` is the largest relative change of its work.
  void compare(const StackPlan& of, const nlohmann::json& changed, const std::string& what, double growth = 0);
  /// Compares every default of a changed plan with that of `before`. The fields `but` (JSON pointers) may differ.
  void compare_defaults(const StackPlan& of, const nlohmann::json& before, const nlohmann::json& changed, const std::string& what,
                        const std::set<std::string>& but);
  /// Counts one comparison. It breaks the property if `difference` returns a text or throws ConfigError.
  void judge(const StackPlan& of, const std::string& what, const std::function<std::string()>& difference);
  /// Fails if a comparison found a difference, or if there were fewer than `least` comparisons.
  void require_none(int least) const;

 private:
  int checked_ = 0;
  std::vector<std::string> broken_;
};

using PlanCheck = std::function<void(const StackPlan&, Findings&)>;

inline constexpr int kPlans = 24, kNightlyPlans = 300;

/// Runs `check` on `count` random plans. Fails if one breaks it, or if it makes fewer than `least` comparisons.
void check_plans(int count, int least, const PlanCheck& check);

}  // namespace tandem::tests
