#pragma once
// What a perturbation costs: the same step without it, and under other seeds.

#include "models/plan/perturbation.hpp"
#include "reports/prediction/prediction.hpp"
#include "sim/engine/simulated_step.hpp"
#include "sim/network/setup.hpp"
#include "sim/result/simulate.hpp"

namespace tandem::sim {

/// The step on `plain` and without jitter.
Duration undisturbed(const Setup& setup, const Options& options, const Topology& plain);

/// A perturbed step that was simulated: how, and what it took. Other seeds take the place of `simulated`.
struct DisturbedStep {
  const Setup& setup;
  const Options& options;
  Duration time;
  SimulatedStep& simulated;
};

/// Step times of all seeds: the step's own and those that follow. `at_once`: seeds that are simulated on threads at the same time, each
/// in memory of its own; the times do not depend on it. `progress` may be empty, and is never called by two threads at once.
StepSpread spread_over_seeds(const DisturbedStep& step, int at_once, const TellProgress& progress);

/// `plain` is the machine without the perturbation.
PerturbationCost perturbation_cost(const Perturbation& perturbation, const DisturbedStep& step, const Topology& plain, int at_once,
                                   const TellProgress& progress);

}  // namespace tandem::sim
