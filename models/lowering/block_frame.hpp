#pragma once
// What the forward and backward templates of a block share: slots, and the two halves of the tensor between blocks.

#include "models/lowering/block_activations.hpp"
#include "models/lowering/blocks.hpp"

namespace tandem::lowering {

/// Regions of a block, owned for as long as a template is written.
struct BlockRegions {
  RegionLayout block, experts;
  BlockRegions(const Shapes& s, bool moe)
      : block(block_region(s, moe)), experts(moe ? experts_region(s) : RegionLayout{"", {}}) {}
};

/// The tensor between blocks: the state that a sublayer reads, and the residual it is added to.
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

/// Gradients of a region, with the padding behind it.
inline RegionValues gradient_slot(TemplateBuilder& b, std::string name, const RegionLayout& layout, DType dtype) {
  if (layout.elements() == 0) return {};
  return {layout, b.whole(b.slot(std::move(name), MemoryKind::gradients), dtype, layout.padded_elements())};
}

inline RegionValues region_slot(TemplateBuilder& b, std::string name, MemoryKind kind, const RegionLayout& layout,
                                DType dtype) {
  return {layout, b.whole(b.slot(std::move(name), kind), dtype, layout.elements())};
}

}  // namespace tandem::lowering
