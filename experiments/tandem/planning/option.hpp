#pragma once
// A plan with its budget, and changes of it.

#include <string>

#include "experiments/tandem/planning/budget.hpp"

namespace tandem::planning {

/// A plan and the cost of its training.
struct Option {
  Assessment assessment;
  Conditions conditions;
  Budget budget;
};

/// A change of one input or of several plan fields, and the resulting budget.
struct Change {
  std::string name, value;
  Budget budget;
  std::int64_t tokens_per_step = 0;
  bool of_plan = false;       ///< a field of the plan is changed
  std::string note;           ///< what limits the comparison; else empty
  std::string refusal = {};   ///< why the changed plan is impossible, which has no budget; else empty
  std::string currency = {};  ///< " USD"; empty without a price that has one
};

/// One input at its low and its high value, all others unchanged.
struct Sensitivity {
  std::string input;
  Change low, high;
  double days_span() const;
  double money_span() const;  ///< 0 without a price
};

/// True if the plan is expected to finish within the wanted days, or if none are wanted.
bool in_time(const Option& option);
/// True if the plan is expected to cost at most the wanted money, or if no limit is set. Without a price it is false.
bool in_budget(const Option& option);
inline bool meets_limits(const Option& option) { return in_time(option) && in_budget(option); }

}  // namespace tandem::planning
