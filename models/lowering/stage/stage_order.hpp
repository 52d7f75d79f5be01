#pragma once
// Inputs for the order of a stage's passes: the shape of the plan's schedule and, for automatic
// orders, the costs of layers and of both ends of the model (models/schedule/pass_work).

#include <vector>

#include "models/lowering/shapes/stage_units.hpp"
#include "models/lowering/stage/templates.hpp"
#include "models/schedule/pass_work.hpp"

namespace tandem::lowering {

/// Costs of one layer, for a micro-batch after the first.
struct LayerWork {
  PassWork pass;           ///< costs of a layer that stores only its input
  std::int64_t again = 0;  ///< cost of recomputing its forward pass
  std::int64_t kept = 0;   ///< additional bytes that a layer without recomputation stores
};
LayerWork layer_work(const BlockTemplates& block, const TemplateLibrary& library);

/// Costs of the embedding, the head and a transfer between stages.
struct EndWork {
  PassWork embedding, head;
  PassWork module;         ///< an MTP module without its block
  std::int64_t transfer = 0;
};
EndWork end_work(const Templates& templates, const TemplateLibrary& library);

/// Adds the costs of `layers` layers, `recomputed` of them with recomputation.
void add_layers(PassWork& sum, const LayerWork& layer, std::int64_t layers, std::int64_t recomputed);
/// Adds the costs of the ends of the model that a chunk holds.
void add_ends(PassWork& sum, const EndWork& ends, const ChunkPart& part);

/// The shape of a plan's schedule. `work`: costs by stage, for automatic orders; empty for others.
ScheduleShape shape_of(const Plan& plan, const std::vector<PassWork>& work);

}  // namespace tandem::lowering
