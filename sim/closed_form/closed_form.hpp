#pragma once
// Step time and memory of a plan, for searches over many plans on one cluster. One way needs no task graph: recurrences of the
// pipeline schedule and of the gradient reduction behind it, with cached times of layers and communications. The other simulates
// short plans with the same layout.

#include <memory>
#include <utility>

#include "sim/closed_form/estimate.hpp"
#include "sim/closed_form/short_steps.hpp"
#include "sim/closed_form/step_estimate.hpp"

namespace tandem::sim {

/// Estimates plans on one cluster. Not thread-safe: each thread needs its own.
class ClosedForm {
 public:
  /// Results of small and short plans that the objects of several threads share. For one topology and cost model.
  struct Store {
    LayerTimesCache::Store layers;
    ShortSteps::Store steps;
    FootprintStore footprints;
  };

  /// References outlive the object.
  ClosedForm(const Topology& topology, const CostModel& cost, std::shared_ptr<Store> store = std::make_shared<Store>())
      : store_(std::move(store)),
        topology_(topology),
        cost_(cost),
        layers_(topology, cost, store_->layers, store_->footprints),
        links_(topology, cost), runtime_(topology, cost), short_(topology, cost, store_->steps, store_->footprints) {}

  /// Estimates a validated plan that fits the cluster. `outside` is set only for plans with a perturbation.
  Estimate estimate(const Plan& plan, MemoryEstimate by = MemoryEstimate::allocator) { return estimate(plan, quick(plan), by); }
  /// Likewise, beginning with the result of quick() for the plan.
  Estimate estimate(const Plan& plan, const Estimate& quick, MemoryEstimate by);
  /// Estimates in microseconds by recurrences alone; sets `outside` if they do not apply. With room, memory is a few percent off.
  Estimate quick(const Plan& plan);
  /// Memory of any plan by MemoryEstimate::live_peak. Lowers short plans, but does not simulate them.
  Bytes memory_alive(const Plan& plan) { return short_.memory_alive(plan); }
  /// Step time of a plan without a perturbation from short plans, which are simulated.
  Duration short_time(const Plan& plan);
  /// A lower bound of the step time: the end of the last pass if gradients and weights take no time to travel, without ZeRO and
  /// offloading. MTP modules add `modules` to the last stage. Zero if recurrences do not cover the layers.
  Duration passes(const Plan& plan, const closed_form::ModulePasses& modules = {});

 private:
  const PairTimes* pairs_of(const Plan& plan) { return plan.runs_pairs() ? &layers_.pairs_of(plan) : nullptr; }

  std::shared_ptr<Store> store_;
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
