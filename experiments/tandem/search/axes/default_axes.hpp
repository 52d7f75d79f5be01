#pragma once
// The fields that a search varies by default.

#include <cstdint>
#include <vector>

#include "experiments/tandem/search/axes/axis.hpp"
#include "models/planfile/plan_draft.hpp"

namespace tandem::search {

/// Sequences from this length on are worth sharing among context ranks.
inline constexpr std::int64_t kLongSequence = 8192;

/// Tensor, pipeline and context degrees, the expert degree of MoE models, sharding, micro-batch, schedule with chunks,
/// recomputation, sequence parallelism. Only values that the model, batch and devices allow. `per_node`: devices per node.
std::vector<AxisRequest> default_axes(const Plan& draft, std::int64_t per_node);

/// The automatic and the balanced split of layers over stages. Empty if none of the axes' layouts of a completed plan has a balanced one
/// that differs.
std::vector<AxisRequest> split_axes(Plan plan, const std::vector<AxisRequest>& axes);

/// The modules that selective recomputation repeats: sets for which the stack of a completed plan has options. Empty if it has none
/// but for attention.
std::vector<AxisRequest> module_axes(const Plan& plan);

}  // namespace tandem::search
