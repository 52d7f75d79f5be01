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
  Estimate estimate(const Plan& plan);
  /// The same without the holes between tensors where a plan nearly fills a device: its allocator is not played, which takes seconds.
  Estimate rough(const Plan& plan);
  /// The same in microseconds, or outside: by recurrences alone. Its memory is within some percent where it fits with room.
  Estimate quick(const Plan& plan);

 private:
  Estimate read(const Plan& plan, Fill fill);

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
