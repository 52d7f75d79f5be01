#pragma once
// The cost of a training: days, device hours, money, energy, failures.

#include <limits>
#include <optional>

#include "experiments/tandem/planning/rent.hpp"
#include "sim/budget/failures.hpp"

namespace tandem::planning {

/// A figure with its 80 % range, which follows from that of the step time. All three are equal if the step time was measured.
struct Ranged {
  double value = 0, low = 0, high = 0;
};

struct FailureBudget {
  double mtbf_hours = std::numeric_limits<double>::infinity();  ///< of the whole job
  double expected = 0;         ///< expected number during the training
  sim::TimeShares shares;      ///< of the time in which enough nodes are available
  double available = 1;        ///< fraction of time in which enough nodes are available
  double interval_s = 0, young_s = 0, daly_s = 0;
  int spares = 0;              ///< nodes
  bool saves_at_end = false;   ///< the training is shorter than the interval, which is infinite without failures: one save, when it ends
};

struct EnergyBudget {
  Ranged kwh;
  double peak_kw = 0;
  std::optional<double> co2_kg;
};

/// Whether a plan that fits `room` bytes might not: measured memory was up to `error`, a share, above the predicted.
inline bool is_tight(std::int64_t needed, std::int64_t room, double error) {
  return static_cast<double>(needed) * (1 + error) > static_cast<double>(room);
}
/// The note that a tight plan gets.
std::string tight_note(double error);

enum class MemoryVerdict { fits, tight, too_large };

struct Budget {
  double steps = 0;                      ///< whole steps
  double full_steps = 0;                 ///< steps of the full batch that take as long; fewer than `steps` with a ramp-up
  Ranged step_s;
  double goodput = 1;
  Ranged days, device_hours;             ///< device hours exclude spares
  RentedDevices rented;
  std::optional<double> in_time;         ///< probability, 0 to 1, of finishing within the wanted days
  std::optional<Ranged> money;           ///< of all rented devices
  std::optional<Ranged> money_without_idle;  ///< of those that are used or spare
  std::optional<double> in_budget;       ///< probability, 0 to 1, that `money` is at most the wanted money
  std::optional<EnergyBudget> energy;
  FailureBudget failures;
  MemoryVerdict memory = MemoryVerdict::fits;
  bool published = true;                 ///< the step time was measured, or the device has published ones; else ranges are wide
  bool bound = false;                    ///< the device has no calibration, so figures are the least that they can be

  /// What plans are ranked by: the figure or, of a bound, the (geometric) middle of its range. A bound is beside its range, not in it.
  double ranked(const Ranged& figure) const;
};

/// Computes the budget of one phase, without probabilities. The assessment must have a prediction. Throws ConfigError if failures leave
/// no time for work.
Budget budget_of(const Assessment& assessment, const Conditions& conditions, const Facts& facts);

}  // namespace tandem::planning
