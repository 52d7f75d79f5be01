#include "experiments/tandem/planning/option.hpp"

#include <cmath>

namespace tandem::planning {

double Sensitivity::days_span() const { return std::abs(high.budget.days.value - low.budget.days.value); }

double Sensitivity::money_span() const {
  return low.budget.money && high.budget.money ? std::abs(high.budget.money->value - low.budget.money->value) : 0;
}

bool in_budget(const Option& o) {
  return !o.conditions.budget || (o.budget.money && o.budget.money->value <= *o.conditions.budget);
}

bool in_time(const Option& o) { return !o.conditions.days || o.budget.days.value <= *o.conditions.days; }

}  // namespace tandem::planning
