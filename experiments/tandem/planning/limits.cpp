#include "experiments/tandem/planning/limits.hpp"

#include "experiments/tandem/planning/answer_parts.hpp"

namespace tandem::planning {
namespace {

std::string missed_days(const Option& best, bool alone) {
  const std::string limit = figure(*best.conditions.days), takes = figure(best.budget.days.value);
  return alone ? "the plan takes " + takes + " days; --days allows " + limit
               : "no plan that fits is done in " + limit + " days; the fastest takes " + takes;
}

std::string missed_budget(const Option& best, bool alone) {
  const std::string limit = figure(*best.conditions.budget), costs = figure(best.budget.money->value);
  const std::string in_days = best.conditions.days ? " and is done in " + figure(*best.conditions.days) + " days" : "";
  return alone ? "the plan costs " + costs + "; --budget allows " + limit
               : "no plan that fits" + in_days + " costs at most " + limit + "; the cheapest costs " + costs;
}

}  // namespace

std::string missed_limit(const Answer& a) {
  const Option& best = *a.best();
  const bool alone = a.options.size() == 1;
  if (!in_time(best)) return missed_days(best, alone);
  return in_budget(best) ? "" : missed_budget(best, alone);
}

}  // namespace tandem::planning
