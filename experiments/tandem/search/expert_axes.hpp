#pragma once
// The fields that say how rows reach experts, as far as a plan's framework has a choice.

#include <vector>

#include "experiments/tandem/search/axis.hpp"
#include "models/planfile/plan_draft.hpp"

namespace tandem::search {

/// `overlap_experts` of a model with experts, if its stack runs both values with some of the axes' schedules and recomputation; else
/// empty. It takes memory and shortens steps, so a search varies it by default.
std::vector<AxisRequest> overlap_axes(const PlanDraft& draft, const std::vector<AxisRequest>& axes);

/// `token_dispatcher` with the values that its stack runs, if there are several; else empty. A search does not vary it by default.
std::vector<AxisRequest> dispatcher_axes(const PlanDraft& draft, const std::vector<AxisRequest>& axes);

}  // namespace tandem::search
