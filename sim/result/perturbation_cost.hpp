#pragma once
// The cost of a perturbation: the step time without it, and under other seeds.

#include "models/plan/perturbation.hpp"
#include "reports/prediction/prediction.hpp"
#include "sim/engine/simulated_step.hpp"
#include "sim/network/setup.hpp"
#include "sim/result/simulate.hpp"

namespace tandem::sim {

/// Step time on `plain` without jitter.
Duration undisturbed(const Setup& setup, const Options& options, const Topology& plain);

/// A simulated perturbed step: its inputs and its time. Other seeds overwrite `simulated`.
struct DisturbedStep {
  const Setup& setup;
  const Options& options;
  Duration time;
  SimulatedStep& simulated;
};

/// Spread of the step times of all seeds: the step's own and the following ones. `at_once` seeds are simulated at the same time,
/// each on a thread with its own memory; the times do not depend on it. `progress` may be empty; two threads never call it at once.
StepSpread spread_over_seeds(const DisturbedStep& step, int at_once, const TellProgress& progress);

/// `plain` is the machine without the perturbation.
PerturbationCost perturbation_cost(const Perturbation& perturbation, const DisturbedStep& step, const Topology& plain, int at_once,
                                   const TellProgress& progress);

}  // namespace tandem::sim
