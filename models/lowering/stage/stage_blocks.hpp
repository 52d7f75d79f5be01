#pragma once
// The templates of a stage's layers, and the nominal costs of its passes.

#include "models/lowering/stage/stage_order.hpp"

namespace tandem::lowering {

class StageBlocks {
 public:
  StageBlocks(const Plan& plan, const Shapes& shapes, const Templates& templates, const std::vector<ChunkPart>& chunks)
      : plan_(plan), s_(shapes), t_(templates), chunks_(chunks) {}

  /// Templates of layer `l` of a chunk. The blocks of MTP modules follow its layers.
  const BlockTemplates& at(const ChunkPart& p, std::int64_t l) const {
    const std::int64_t layer = p.first_layer + l;
    const bool kept = plan_.training.recompute == Recompute::selective && !among_recomputed(p, l);
    if (s_.is_decoder_layer(layer)) return kept ? t_.decoder.kept_block : t_.decoder.block;
    return (kept ? t_.kept_blocks : t_.blocks)[s_.kinds[static_cast<std::size_t>(layer)].index()];
  }
  /// Its backward pass. Below the first layer nothing reads the input's gradient if only adapters are trained.
  const FirstAndLater& backward(const ChunkPart& p, std::int64_t l) const {
    const BlockTemplates& t = at(p, l);
    return p.first && l == 0 && t.backward_end.first.value() >= 0 ? t.backward_end : t.backward;
  }
  /// Whether full recomputation covers the layer.
  bool recomputed(const ChunkPart& p, std::int64_t l) const {
    return plan_.training.recompute == Recompute::full && among_recomputed(p, l);
  }

  /// Templates that these chunks' passes use. `metrics`: whether metrics have a template.
  std::vector<TemplateId> used_templates(bool forward_only, bool metrics) const;

  /// Costs of the passes of a micro-batch after the first. Only for a model with one stack of layers.
  PassWork work(const TemplateLibrary& library) const;

 private:
  /// MTP blocks are recomputed only if all layers are (NVIDIA/Megatron-LM:
  /// megatron/core/transformer/multi_token_prediction.py, _checkpointed_forward skips them where some layers run again).
  bool among_recomputed(const ChunkPart& p, std::int64_t l) const {
    if (l >= p.layers) return plan_.training.recompute_layers == 0;
    return l < among_first(chunks_, p, plan_.training.recompute_layers);
  }

  const Plan& plan_;
  const Shapes& s_;
  const Templates& t_;
  const std::vector<ChunkPart>& chunks_;
};

}  // namespace tandem::lowering
