#pragma once
// How many layers the stages of a pipeline get, if the last one also has a large head or modules of multi-token prediction.

#include <cstdint>
#include <optional>
#include <vector>

#include "models/plan/plan.hpp"

namespace tandem {

/// Layers by part of the pipeline: as many on every part, the remainder on those in the middle.
std::vector<std::int64_t> even_split(std::int64_t layers, std::int64_t parts);

/// The split whose longest part computes least. The last part computes `extra` layers' work beside its own layers, of which it
/// has one or more; the others share the rest evenly. Needs two parts or more, and no more parts than layers.
std::vector<std::int64_t> balanced_split(std::int64_t layers, std::int64_t parts, double extra);

/// Matrix FLOPs of the head and of modules of multi-token prediction with their heads, over those of a mean layer. Needs a family
/// that has_forward_flops.
double layers_of_last_end(const Plan& plan);

/// The plan without modules of multi-token prediction, its layers on the same stages.
Plan without_modules(const Plan& plan);

/// A stage that computes much longer than the median, and a split whose longest stage computes less.
struct BetterSplit {
  std::int64_t stage = 0;
  double excess = 0;                ///< its computing time over the median stage's, less 1
  std::vector<std::int64_t> split;  ///< for parallel.pipeline_split
  double longest = 0;               ///< estimated computing time of the split's longest stage
};
/// `computing`: computing time of every stage in a step, in any unit. None if no stage is much longer, or no split is known to be
/// better. The last stage's time beyond the mean layer's is taken to stay there.
std::optional<BetterSplit> better_split(const Plan& plan, const std::vector<double>& computing);

}  // namespace tandem
