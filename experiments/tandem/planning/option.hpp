#pragma once
// One plan with its budget, and changes of it.

#include <string>

#include "experiments/tandem/planning/budget.hpp"

namespace tandem::planning {

/// A plan with what its training takes.
struct Option {
  Assessment assessment;
  Conditions conditions;
  Budget budget;
};

/// One change of an input, and the budget with it.
struct Change {
  std::string name, value;
  Budget budget;
};

/// One input at its low and at its high value, everything else as it is.
struct Sensitivity {
  std::string input;
  Change low, high;
  double days_span() const;
  double money_span() const;  ///< 0 without a price
};

/// Whether a plan is expected to be done within the wanted days; true where none are wanted.
bool in_time(const Option& option);

}  // namespace tandem::planning
