#include "experiments/tandem/planning/budget.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/graph/segments.hpp"
#include "reports/prediction/text.hpp"
#include "sim/result/error_book.hpp"

namespace tandem::planning {
namespace {

constexpr double kSecondsPerDay = 86400, kSecondsPerHour = 3600, kHoursPerDay = 24;
constexpr double kWantedAvailability = 0.99;  // availability for which spares are chosen
constexpr double kLeastGoodput = 1e-3;

Ranged scaled(const Ranged& r, double factor) { return {r.value * factor, r.low * factor, r.high * factor}; }

sim::FailureModel model_of(const FailureCondition& c, double devices) {
  return {c.per_device_day * devices / kSecondsPerDay, c.detection_s + c.restart_s, c.save_s, c.durable_s};
}

/// Average number of nodes that wait for repair.
double mean_broken(const FailureCondition& c, const sim::FailureModel& m) {
  return m.failures_per_s * c.repair_hours * kSecondsPerHour;
}

double interval_of(const FailureCondition& c, const sim::FailureModel& m) {
  if (c.interval_s) return std::max(*c.interval_s, m.durable_s - m.save_s);
  if (m.save_s + m.durable_s == 0 && m.failures_per_s > 0) return 1;  // free checkpoints: one per second
  return sim::best_interval_s(m);
}

/// `work_s`: seconds of all steps. A training that is shorter than the interval saves once, when it ends: so does one without failures
/// and without an interval of the user's, whose best interval is infinite.
FailureBudget failures_of(const FailureCondition& c, double devices, double work_s) {
  const sim::FailureModel m = model_of(c, devices);
  FailureBudget out;
  if (m.failures_per_s > 0) out.mtbf_hours = 1 / m.failures_per_s / kSecondsPerHour;
  out.interval_s = interval_of(c, m);
  out.saves_at_end = work_s < out.interval_s;
  if (out.saves_at_end) out.interval_s = std::max(work_s, m.durable_s - m.save_s);
  out.young_s = sim::young_interval_s(m), out.daly_s = sim::daly_interval_s(m);
  out.shares = c.goodput ? sim::TimeShares{*c.goodput, 0, 1 - *c.goodput, 0} : sim::time_shares(m, out.interval_s);
  if (c.repair_hours > 0 || c.spares) {
    const double broken = mean_broken(c, m);
    out.spares = c.spares ? static_cast<int>(*c.spares) : sim::spares_for(broken, kWantedAvailability);
    out.available = sim::share_with_spares(broken, out.spares);
  }
  return out;
}

/// Adds a restart of `restart_s` to the time in which `work_s` seconds of steps are made.
void add_restart(sim::TimeShares& shares, double work_s, double restart_s) {
  const double whole_s = work_s / shares.work, kept = whole_s / (whole_s + restart_s);
  shares = {shares.work * kept, shares.saving * kept, shares.lost * kept, shares.down * kept + (1 - kept)};
}

/// The last step trains a whole batch. A count that lies above a whole number by rounding alone is that number.
double whole_steps(double steps) { return std::ceil(steps * (1 - 1e-12)); }

/// Sets steps and full_steps. Step times of a ramp-up lie on a line between those of its first and of the full batch, as all
/// micro-batches take the same time.
void count_steps(const Assessment& a, double tokens, Budget& out) {
  const TrainingSpec& t = a.plan.training;
  const auto full = static_cast<double>(t.global_batch_size), first = static_cast<double>(t.batch_rampup.start);
  const double samples = tokens / (a.prediction.tokens_per_s * a.prediction.step_time.seconds()) * full;
  out.steps = out.full_steps = whole_steps(samples / full);
  if (first == 0 || first == full) return;
  out.steps = out.full_steps = 0;
  for (const Segment& s : segments(a.plan, std::numeric_limits<std::int32_t>::max())) {
    const auto batch = static_cast<double>(s.global_batch_size);
    const double left = (samples - static_cast<double>(s.first_sample)) / batch;
    if (left <= 0) return;
    const double steps = batch == full ? whole_steps(left) : std::min(whole_steps(left), static_cast<double>(s.steps));
    out.steps += steps;
    out.full_steps += steps * (1 - (1 - a.first_step_share) * (full - batch) / (full - first));
  }
}

/// A measured step time has no range.
Ranged step_of(const Prediction& p, const Conditions& c) {
  const double step = p.step_time.seconds();
  const Ranged simulated{step, p.range.low_s, p.range.high_s}, measured{step, step, step};
  return scaled(c.measured_factor ? measured : simulated, c.measured_factor.value_or(1) * c.step_factor);
}

EnergyBudget energy_of(const PowerCondition& power, const Budget& b, double devices) {
  const double down = b.failures.available * b.failures.shares.down + (1 - b.failures.available);
  const double spares = b.rented.spare / devices;
  const double kwh = sim::energy_kwh(power.draw, {1 - down, down + spares}, power.pue);
  EnergyBudget out;
  out.kwh = scaled(b.device_hours, kwh);
  out.peak_kw = sim::peak_kw(power.draw, devices, power.pue);
  if (power.carbon_kg_per_kwh) out.co2_kg = out.kwh.value * *power.carbon_kg_per_kwh;
  return out;
}

MemoryVerdict verdict(const Assessment& a, double error) {
  if (!a.prediction.fits) return MemoryVerdict::too_large;
  const std::int64_t room = a.prediction.device_memory.count();
  return is_tight(a.needed_bytes(), room, error) ? MemoryVerdict::tight : MemoryVerdict::fits;
}

double goodput_of(const Assessment& a, const FailureBudget& f) {
  const double out = f.shares.work * f.available;
  if (out < kLeastGoodput)
    throw ConfigError(Problem{a.candidate.file, "", "", "failures leave less than a thousandth of the time for work",
                              "give fewer failures, a faster save or restart, or more spares"});
  return out;
}

}  // namespace

double Budget::ranked(const Ranged& figure) const { return bound ? sim::middle_of_range(figure.low, figure.high) : figure.value; }

std::string tight_note(double error) {
  return "memory is tight: predictions of memory were up to " + number_text(100 * error, 0) + " % below what was measured";
}

Budget budget_of(const Assessment& a, const Conditions& c, const Facts& facts) {
  const Prediction& p = a.prediction;
  Budget out;
  count_steps(a, c.tokens, out);
  out.step_s = step_of(p, c);
  out.failures = failures_of(c.failures, a.devices(), out.step_s.value * out.full_steps);
  add_restart(out.failures.shares, out.step_s.value * out.full_steps, c.begin_s);
  out.goodput = goodput_of(a, out.failures);
  out.days = scaled(out.step_s, out.full_steps / out.goodput / kSecondsPerDay);
  out.failures.expected = out.days.value * kHoursPerDay / out.failures.mtbf_hours;
  out.device_hours = scaled(out.days, kHoursPerDay * a.devices());
  out.rented = rented_devices(a, c.price, out.failures.spares);
  if (c.price) {
    const double device = kHoursPerDay * c.price->device_hour;
    out.money = scaled(out.days, device * out.rented.paid());
    out.money_without_idle = scaled(out.days, device * out.rented.without_idle());
  }
  if (c.power) out.energy = energy_of(*c.power, out, a.devices());
  out.memory = verdict(a, facts.memory_error);
  out.bound = !c.measured_factor && sim::is_bound(*a.topology);
  out.published = c.measured_factor || sim::has_records(errors_of(a, facts), *a.topology);
  return out;
}

}  // namespace tandem::planning
