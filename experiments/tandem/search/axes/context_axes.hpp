#pragma once
// How context ranks share attention, as far as a search varies it.

#include <vector>

#include "experiments/tandem/search/axes/axis.hpp"
#include "models/planfile/plan_draft.hpp"

namespace tandem::search {

/// The plan's own way and Ulysses, which moves fewest bytes where there are enough heads; all_gather where the plan's own way cannot run.
/// Empty if no layout of the axes has context ranks, or if nothing but the plan's own way can run.
std::vector<AxisRequest> context_mode_axes(const PlanDraft& draft, const std::vector<AxisRequest>& axes);

/// Numbers of context ranks that exchange heads, as the model's heads allow. Empty if no layout of the axes has room for two levels.
std::vector<AxisRequest> context_level_axes(const Plan& draft, const std::vector<AxisRequest>& axes);

}  // namespace tandem::search
