#include "experiments/tandem/planning/limits.hpp"

#include <limits>
#include <utility>

#include "experiments/tandem/planning/answer_parts.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::planning {
namespace {

/// Two different numbers, with as many digits as their texts need to differ.
std::pair<std::string, std::string> apart(double a, double b) {
  std::pair<std::string, std::string> out{figure(a), figure(b)};
  for (int digits = 1; out.first == out.second && digits <= std::numeric_limits<double>::max_digits10; ++digits)
    out = {number_text(a, digits), number_text(b, digits)};
  return out;
}

/// How a bound's figure was found.
std::string middle(const Option& best) { return best.budget.bound ? " (a bound: the middle of its range)" : ""; }

std::string missed_days(const Option& best, bool alone) {
  const auto [limit, takes] = apart(*best.conditions().days, best.budget.ranked(best.budget.days));
  return alone ? "the plan takes " + takes + " days" + middle(best) + "; --days allows " + limit
               : "no plan that fits is done in " + limit + " days; the fastest takes " + takes + middle(best);
}

std::string missed_budget(const Option& best, bool alone) {
  const auto [limit, costs] = apart(*best.conditions().budget, best.budget.ranked(*best.budget.money));
  const std::string in_days = best.conditions().days ? " and is done in " + figure(*best.conditions().days) + " days" : "";
  return alone ? "the plan costs " + costs + middle(best) + "; --budget allows " + limit
               : "no plan that fits" + in_days + " costs at most " + limit + "; the cheapest costs " + costs + middle(best);
}

}  // namespace

std::string missed_limit(const Answer& a) {
  const Option& best = *a.best();
  const bool alone = a.options.size() == 1;
  const std::string late = in_time(best) ? "" : missed_days(best, alone);
  if (in_budget(best) || !(late.empty() || alone)) return late;
  return late + (late.empty() ? "" : "; and ") + missed_budget(best, alone);
}

}  // namespace tandem::planning
