#pragma once
// A split of layers over stages that a plan leaves to the work of its layers.

#include "models/plan/plan.hpp"

namespace tandem {

/// Stands in ParallelSpec::pipeline_split for "balanced" until the plan is completed (fill_split in models/planfile/plan_defaults.cpp).
inline constexpr std::int64_t kBalanced = -1;

inline bool asks_balance(const ParallelSpec& q) { return q.pipeline_split.size() == 1 && q.pipeline_split.front() == kBalanced; }

}  // namespace tandem
