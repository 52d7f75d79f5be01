#include <algorithm>

#include "experiments/tandem/planning/option.hpp"

namespace tandem::planning {
namespace {

void add(Ranged& to, const Ranged& more) { to.value += more.value, to.low += more.low, to.high += more.high; }

/// Money of a training whose phases all have it.
void add(std::optional<Ranged>& to, const std::optional<Ranged>& more) {
  if (to && more) add(*to, *more);
  else to.reset();
}

void add(std::optional<EnergyBudget>& to, const std::optional<EnergyBudget>& more) {
  if (!to || !more) return to.reset();
  add(to->kwh, more->kwh);
  to->peak_kw = std::max(to->peak_kw, more->peak_kw);
  if (to->co2_kg && more->co2_kg) *to->co2_kg += *more->co2_kg;
}

/// Shares of the days in which enough nodes are available, of days that `to` and `more` take together.
void add_time(Budget& to, const Budget& more) {
  const double before = to.days.value * to.failures.available, then = more.days.value * more.failures.available;
  const auto mean = [&](double a, double b) { return (a * before + b * then) / (before + then); };
  sim::TimeShares& shares = to.failures.shares;
  const sim::TimeShares& others = more.failures.shares;
  shares.work = mean(shares.work, others.work), shares.saving = mean(shares.saving, others.saving);
  shares.lost = mean(shares.lost, others.lost), shares.down = mean(shares.down, others.down);
  to.failures.available = (before + then) / (to.days.value + more.days.value);
  to.goodput = shares.work * to.failures.available;
}

/// Adds a phase. Its checkpoints are left to the caller.
void add(Budget& to, const Budget& more) {
  const double before = to.full_steps, then = more.full_steps;
  const auto mean = [&](double a, double b) { return (a * before + b * then) / (before + then); };
  Ranged& step = to.step_s;
  step = {mean(step.value, more.step_s.value), mean(step.low, more.step_s.low), mean(step.high, more.step_s.high)};
  add_time(to, more);
  to.steps += more.steps, to.full_steps += more.full_steps;
  add(to.days, more.days);
  add(to.device_hours, more.device_hours);
  add(to.money, more.money);
  add(to.money_without_idle, more.money_without_idle);
  add(to.energy, more.energy);
  to.failures.expected += more.failures.expected;
  to.memory = std::max(to.memory, more.memory);
  to.published = to.published && more.published;
  to.bound = to.bound || more.bound;
}

/// The probability that an amount which grows with the step times is at most `limit`. `amount`: of a phase.
template <class Amount>
double probability(const std::vector<PricedPhase>& phases, const Facts& facts, double limit, Amount amount) {
  double whole = 0;
  std::vector<sim::PartOfWork> parts;
  for (const PricedPhase& p : phases) {
    const Assessment& a = p.assessment;
    whole += amount(p.budget);
    parts.push_back({amount(p.budget), sim::range_question(a.prediction, *a.topology, sim::traits_on(a.plan, *a.topology))});
  }
  if (phases.front().conditions.measured_factor) return whole <= limit ? 1 : 0;
  return sim::share_within(errors_of(phases.front().assessment, facts), parts, limit);
}

}  // namespace

Budget whole_budget(const std::vector<PricedPhase>& phases, const Facts& facts) {
  Budget out = phases.front().budget;
  for (std::size_t i = 1; i < phases.size(); ++i) add(out, phases[i].budget);
  if (phases.size() > 1) {
    constexpr double kHoursPerDay = 24;
    const FailureBudget& saved = longest(phases).budget.failures;
    out.failures.interval_s = saved.interval_s, out.failures.young_s = saved.young_s, out.failures.daly_s = saved.daly_s;
    out.failures.saves_at_end = saved.saves_at_end;
    out.rented = largest(phases).budget.rented, out.failures.spares = largest(phases).budget.failures.spares;
    if (out.failures.expected > 0) out.failures.mtbf_hours = out.days.value * kHoursPerDay / out.failures.expected;
  }
  const Conditions& c = phases.front().conditions;
  if (c.days) out.in_time = probability(phases, facts, *c.days, [](const Budget& b) { return b.days.value; });
  if (c.budget && out.money) out.in_budget = probability(phases, facts, *c.budget, [](const Budget& b) { return b.money->value; });
  return out;
}

}  // namespace tandem::planning
