#pragma once
// The fields that say how rows reach experts, as far as a plan's framework has a choice.

#include <vector>

#include "experiments/tandem/search/axes/axis.hpp"
#include "models/planfile/plan_draft.hpp"

namespace tandem::search {

/// `token_dispatcher` and `overlap_experts` of a model with experts, each with the values that its stack runs with some of the axes'
/// schedules and recomputation, if there are several. A search varies the overlap by default. Its dispatcher is the stack's, or the
/// one that the search switches on.
std::vector<AxisRequest> expert_axes(const PlanDraft& draft, const std::vector<AxisRequest>& axes);

}  // namespace tandem::search
