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

/// A change of one input, and the resulting budget.
struct Change {
  std::string name, value;
  Budget budget;
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

}  // namespace tandem::planning
