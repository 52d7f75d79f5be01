#pragma once
// What a perturbation costs: the same step without it, and under other seeds.

#include "models/plan/perturbation.hpp"
#include "reports/prediction/prediction.hpp"
#include "sim/network/scene.hpp"

namespace tandem::sim {

/// The step on `plain` and without jitter.
Duration undisturbed(const Scene& scene, const Manner& manner, const Topology& plain);

/// `scene` and `manner` are those of the disturbed step, which took `step`; `plain` is the machine without the perturbation.
PerturbationCost perturbation_cost(const Perturbation& perturbation, const Scene& scene, const Manner& manner,
                                   const Topology& plain, Duration step);

}  // namespace tandem::sim
