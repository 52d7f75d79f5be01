#pragma once

#include "experiments/tandem/validation/judged_record.hpp"
#include "models/plan/plan.hpp"
#include "topology/topology.hpp"

namespace tandem::program {

/// Facts about a plan for grouping and baselines.
PlanDigest digest(const Plan& plan, const Topology& topology);

}  // namespace tandem::program
