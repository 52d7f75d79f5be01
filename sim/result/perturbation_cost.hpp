#pragma once
// What a perturbation costs: the same step without it, and under other seeds.

#include "models/plan/perturbation.hpp"
#include "reports/prediction/prediction.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// The step on `plain` and without jitter.
Duration undisturbed(const Setup& setup, const Options& options, const Topology& plain);

/// `setup` and `options` are those of the disturbed step, which took `step`; `plain` is the machine without the perturbation.
PerturbationCost perturbation_cost(const Perturbation& perturbation, const Setup& setup, const Options& options,
                                   const Topology& plain, Duration step);

}  // namespace tandem::sim
