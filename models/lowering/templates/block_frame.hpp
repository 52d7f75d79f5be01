#pragma once
// Slots that the forward and backward templates of a block share, and the two halves of the tensor between blocks.

#include "models/lowering/templates/block_activations.hpp"
#include "models/lowering/templates/blocks.hpp"

namespace tandem::lowering {

/// Layouts of a block's regions. Must live while the template is written.
struct BlockRegions {
  RegionLayout block, quantized, adapters, early, again, experts, expert_adapters, relative;
  explicit BlockRegions(const Shapes& s)
      : block(block_region(s)),
        quantized(quantized_region(s)),
        adapters(adapter_region(s)),
        early(early_region(block)),
        again(again_region(s, block)),
        experts(s.has_experts() ? experts_region(s) : RegionLayout{"", {}}),
        expert_adapters(s.has_experts() ? expert_adapter_region(s) : RegionLayout{"", {}}),
        relative(relative_region(s)) {}
};

/// The tensor between blocks: the state that a sublayer reads, and the residual that its output is added to.
struct Hidden {
  Value state, residual;
  Hidden(const Shapes& s, const Value& whole) : state(whole), residual(whole) {
    const std::int64_t n = s.rows * s.hidden;
    if (s.placement != NormPlacement::post_add) return;
    state = whole.part(0, n);
    residual = whole.part(n, n);
  }
};

inline Value hidden_slot(TemplateBuilder& b, const Shapes& s, std::string name) {
  return b.whole(b.slot(std::move(name), MemoryKind::activations), s.dtypes.compute, s.hidden_elements());
}

/// Elements of the hidden states of the model and of its MTP modules together.
inline std::int64_t state_elements(const Shapes& s) { return (s.mtp + 1) * s.rows * s.hidden; }

/// The encoder's output, or its gradient, as a slot of a decoder's block; empty in other blocks.
inline Value memory_slot(TemplateBuilder& b, const Shapes& s, std::string name) {
  if (!s.is_decoder()) return {};
  return b.whole(b.slot(std::move(name), MemoryKind::activations), s.dtypes.compute, s.memory_rows * s.hidden);
}

/// Slots of stored forward tensors. `weights`: the template only computes weight gradients.
inline SavedSlots saved_slots(TemplateBuilder& b, const Shapes& s, bool weights = false) {
  SavedSlots slots;
  if (!weights) slots.saved = b.slot("saved", MemoryKind::activations);
  if (s.on_host.kept()) slots.offloaded = b.slot("offloaded", MemoryKind::activations);
  if (s.defer_weights) slots.weight_inputs = b.slot("weight_inputs", MemoryKind::activations);
  return slots;
}

/// Gradients of a region, including the padding behind it.
inline RegionValues gradient_slot(TemplateBuilder& b, std::string name, const RegionLayout& layout, DType dtype) {
  if (layout.elements() == 0) return {};
  return {layout, b.whole(b.slot(std::move(name), MemoryKind::gradients), dtype, layout.padded_elements())};
}

inline RegionValues region_slot(TemplateBuilder& b, std::string name, MemoryKind kind, const RegionLayout& layout,
                                DType dtype) {
  return {layout, b.whole(b.slot(std::move(name), kind), dtype, layout.elements())};
}

/// The weights that a block reads.
inline BlockParams block_slots(TemplateBuilder& b, const Shapes& s, const BlockRegions& regions) {
  BlockParams p;
  const auto slot = [&](std::string name, const RegionLayout& layout) {
    return region_slot(b, std::move(name), MemoryKind::weights, layout, s.dtypes.weights);
  };
  p.block = slot("weights", regions.block);
  if (regions.quantized.elements() > 0)
    p.quantized = region_slot(b, "quantized", MemoryKind::weights, regions.quantized, s.adapters.base);
  if (regions.adapters.elements() > 0) p.adapters = slot("adapters", regions.adapters);
  if (regions.experts.elements() > 0) p.experts = slot("experts", regions.experts);
  if (regions.expert_adapters.elements() > 0) p.expert_adapters = slot("expert_adapters", regions.expert_adapters);
  if (regions.relative.elements() > 0) p.relative = slot("relative", regions.relative);
  return p;
}

}  // namespace tandem::lowering
