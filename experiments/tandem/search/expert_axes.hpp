#pragma once
// The fields that say how rows reach experts, as far as a plan's framework has a choice.

#include <vector>

#include "experiments/tandem/search/axis.hpp"
#include "models/planfile/plan_draft.hpp"

namespace tandem::search {

/// `token_dispatcher` and `overlap_experts` of a model with experts, each with the values that its stack runs with some of the axes'
/// schedules and recomputation, if there are several. A search does not vary them by default: bounds say little about the overlap,
/// so each of its layouts has to be estimated (DeepSeek-V3 on 1,024 H800: not done after 234 s of a processor; 26 s without).
std::vector<AxisRequest> expert_axes(const PlanDraft& draft, const std::vector<AxisRequest>& axes);

}  // namespace tandem::search
