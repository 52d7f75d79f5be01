#pragma once
// What the order of a stage's passes is made from: the shape of the plan's schedule and, for automatic orders, the work of layers and of
// both ends of the model (models/schedule/pass_work).

#include <vector>

#include "models/lowering/shapes/stage_units.hpp"
#include "models/lowering/stage/templates.hpp"
#include "models/schedule/pass_work.hpp"

namespace tandem::lowering {

/// Of a micro-batch after the first.
struct LayerWork {
  PassWork pass;           ///< of a layer that holds its input alone
  std::int64_t again = 0;  ///< of its forward pass as it runs again
  std::int64_t kept = 0;   ///< bytes that a layer holds besides where it does not
};
LayerWork layer_work(const BlockTemplates& block, const TemplateLibrary& library);

/// Of the embedding, of the head, and of a transfer between stages.
struct EndWork {
  PassWork embedding, head;
  PassWork module;         ///< of an MTP module, without its block
  std::int64_t transfer = 0;
};
EndWork end_work(const Templates& templates, const TemplateLibrary& library);

/// Adds so many layers, of which `recomputed` run again.
void add_layers(PassWork& sum, const LayerWork& layer, std::int64_t layers, std::int64_t recomputed);
/// Adds what a chunk has of the model's ends.
void add_ends(PassWork& sum, const EndWork& ends, const ChunkPart& part);

/// The shape of a plan's schedule; `work` by stage, for automatic orders: empty for the others.
ScheduleShape shape_of(const Plan& plan, const std::vector<PassWork>& work);

}  // namespace tandem::lowering
