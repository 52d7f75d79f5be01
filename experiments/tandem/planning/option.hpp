#pragma once
// A training with its budget, and changes of it.

#include <string>
#include <vector>

#include "experiments/tandem/planning/budget.hpp"

namespace tandem::planning {

/// A phase of a training and its cost.
struct PricedPhase {
  Assessment assessment;
  Conditions conditions;
  Budget budget;
};

/// A plan of each phase and the cost of the whole training.
struct Option {
  std::vector<PricedPhase> phases;  ///< in the order of the training, at least one
  Budget budget;                    ///< of the whole

  bool phased() const { return phases.size() > 1; }
  const Assessment& assessment() const { return phases.front().assessment; }
  const Conditions& conditions() const { return phases.front().conditions; }
  double tokens() const;
  std::vector<std::string> notes() const;  ///< Assessment::notes() of all phases, by_phase()
};

/// The share of a device's memory that a phase needs; above 1 it does not fit.
double memory_share(const PricedPhase& phase);
const PricedPhase& longest(const std::vector<PricedPhase>& phases);   ///< takes the most days
const PricedPhase& neediest(const std::vector<PricedPhase>& phases);  ///< has the largest memory_share
const PricedPhase& largest(const std::vector<PricedPhase>& phases);   ///< pays for the most devices
/// "phase 2: " in a training of several phases, else empty. Phases are counted from 1.
std::string phase_prefix(std::size_t number, std::size_t phases);

/// Sentences of each phase in one list: those of all phases once, others with their phase.
std::vector<std::string> by_phase(const std::vector<std::vector<std::string>>& said);

/// The budget of a whole training. Days, hours, money and energy are sums; their ranges are, too, because errors of its phases are taken as
/// fully dependent: one model on one cluster. Throws nothing.
Budget whole_budget(const std::vector<PricedPhase>& phases, const Facts& facts);

/// A change of one input or of several plan fields, and the resulting budget.
struct Change {
  std::string name, value;
  Budget budget;
  std::int64_t tokens_per_step = 0;  ///< 0 with several phases, whose steps differ
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

/// True if the plan is expected to finish within the wanted days (see Budget::ranked), or if none are wanted.
bool in_time(const Option& option);
/// True if the plan is expected to cost at most the wanted money, or if no limit is set. Without a price it is false.
bool in_budget(const Option& option);
inline bool meets_limits(const Option& option) { return in_time(option) && in_budget(option); }

}  // namespace tandem::planning
