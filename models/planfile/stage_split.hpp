#pragma once
// How many layers the stages of a pipeline get.

#include <cstdint>
#include <optional>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/stack/stack_splits.hpp"

namespace tandem {

/// Layers by part of the pipeline: as many on every part, the remainder on those in the middle.
std::vector<std::int64_t> even_split(std::int64_t layers, std::int64_t parts);

/// The split whose longest part computes least, of layers that are alike. The last part computes `extra` layers' work beside its own
/// layers, of which it has one or more; the others share the rest evenly. Needs two parts or more, and no more parts than layers.
std::vector<std::int64_t> balanced_split(std::int64_t layers, std::int64_t parts, double extra);

/// Matrix FLOPs of the head and of modules of multi-token prediction with their heads, over those of a mean layer. Needs a family
/// that has_forward_flops.
double layers_of_last_end(const Plan& plan);

/// The plan without modules of multi-token prediction, its layers on the same stages.
Plan without_modules(const Plan& plan);

/// Work of a model's parts for one micro-batch, in any unit.
struct LayerCosts {
  std::vector<double> layers;  ///< by layer
  double first = 0, last = 0;  ///< in front of the layers; behind them (head, modules of multi-token prediction)
};

/// Costs in matrix FLOPs of all passes. A layer that is computed again has four thirds of its FLOPs. No layers for a family without
/// has_forward_flops, and for an encoder with a decoder.
LayerCosts flops_of_layers(const Plan& plan);

/// Whether the cost of a layer depends on its place on a stage, because only the first ones compute again (training.recompute_layers).
bool recomputes_by_place(const Plan& plan);

/// Cost by stage of a split of the plan's pipeline.
std::vector<double> costs_of_stages(const Plan& plan, const LayerCosts& costs, const std::vector<std::int64_t>& split);

/// A split whose longest stage costs at least 3 % less than that of the plan's own split. If stages have one chunk, it is the best that
/// `splits` can say. With several chunks and any choice, its longest chunk is the shortest possible. None if there is none, if
/// recomputes_by_place(), and for an encoder with a decoder.
std::optional<std::vector<std::int64_t>> shorter_split(const Plan& plan, const LayerCosts& costs, const StackSplits& splits);

/// What parallel.pipeline_split "balanced" is in a plan whose other fields are complete: shorter_split by FLOPs, else the automatic one.
std::vector<std::int64_t> split_by_flops(Plan plan);

}  // namespace tandem
