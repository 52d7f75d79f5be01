#pragma once
// Step time and memory of a plan, for searches over many plans on one cluster. Either without its task graph: the times of layers and of
// communications, each known once, in the recurrences of the pipeline's schedule and of the exchange of gradients behind it. Or from
// short plans with its layout.

#include "sim/closed_form/estimate.hpp"
#include "sim/closed_form/short_steps.hpp"
#include "sim/closed_form/step_estimate.hpp"

namespace tandem::sim {

/// Estimates plans on one cluster. Not for several threads at once: each has its own.
class ClosedForm {
 public:
  /// References outlive the object.
  ClosedForm(const Topology& topology, const CostModel& cost)
      : topology_(topology),
        cost_(cost),
        layers_(topology, cost), links_(topology, cost), runtime_(topology, cost), short_(topology, cost) {}

  /// Of a validated plan that fits the cluster. Only plans on disturbed machines are outside.
  Estimate estimate(const Plan& plan, MemoryEstimate by = MemoryEstimate::allocator) { return estimate(plan, quick(plan), by); }
  /// The same, going on from what quick() says of the plan.
  Estimate estimate(const Plan& plan, const Estimate& quick, MemoryEstimate by);
  /// The same in microseconds, or outside: by recurrences alone. Its memory is within some percent where it fits with room.
  Estimate quick(const Plan& plan);
  /// Memory alone, as MemoryEstimate::live_peak has it, of any plan: by short plans that are lowered and not simulated.
  Bytes memory_alive(const Plan& plan) { return short_.memory_alive(plan); }
  /// When the last pass ends if gradients and weights take no time to travel, whatever ZeRO and offloading do: the step takes no less.
  /// Zero where recurrences do not have the plan's layers.
  Duration passes(const Plan& plan);

 private:
  const Topology& topology_;
  const CostModel& cost_;
  LayerTimesCache layers_;
  LinkTimes links_;
  PassSchedules schedules_;
  RuntimeMemory runtime_;
  closed_form::Scratch scratch_;
  ShortSteps short_;
};

}  // namespace tandem::sim
