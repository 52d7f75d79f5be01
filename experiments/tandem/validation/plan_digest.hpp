#pragma once

#include "experiments/tandem/validation/judged_record.hpp"
#include "models/plan/plan.hpp"
#include "topology/topology.hpp"

namespace tandem::program {

/// What grouping and baselines need to know about a plan.
PlanDigest digest(const Plan& plan, const Topology& topology);

}  // namespace tandem::program
