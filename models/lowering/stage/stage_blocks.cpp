#include "models/lowering/stage/stage_blocks.hpp"

namespace tandem::lowering {

void StageBlocks::add_layer(PassWork& sum, const BlockTemplates& block, bool recomputed, const TemplateLibrary& library) const {
  const Template &forward = library[block.forward], &backward = library[block.backward.later];
  const std::int64_t input = slot_bytes(forward, "x"), inputs = slot_bytes(forward, "weight_inputs");
  sum.forward += nominal_work(forward);
  sum.backward += nominal_work(backward) + (recomputed ? nominal_work(library[block.again]) : 0);
  sum.weight += nominal_work(library[block.weights.later]);
  sum.held += input + (recomputed ? 0 : slot_bytes(forward, "saved") + inputs);
  sum.deferred += input + inputs + slot_bytes(backward, "deferred");
}

std::vector<TemplateId> StageBlocks::used_templates(bool forward_only, bool metrics) const {
  std::vector<TemplateId> used;
  const auto add = [&](const FirstAndLater& f) { used.insert(used.end(), {f.first, f.later}); };
  const auto add_backward = [&](const FirstAndLater& f) {
    if (!forward_only) add(f);
  };
  for (const ChunkPart& p : chunks_) {
    for (std::int64_t l = 0; l < p.layers; ++l) {
      used.push_back(at(p, l).forward);
      if (!forward_only && recomputed(p, l)) used.push_back(at(p, l).again);
      add_backward(at(p, l).backward);
      if (s_.defer_weights) add_backward(at(p, l).weights);
    }
    if (p.first) used.push_back(t_.embed_forward), add_backward(t_.embed_backward);
    if (p.last) add(t_.head_forward), add_backward(t_.head_backward);
    if (p.last && metrics && !forward_only) used.push_back(t_.metrics);
  }
  return used;
}

PassWork StageBlocks::work(const TemplateLibrary& library) const {
  PassWork sum;
  sum.transfer = nominal_work(library[t_.transfer.send_forward]);
  for (const ChunkPart& p : chunks_) {
    for (std::int64_t l = 0; l < p.layers; ++l) add_layer(sum, at(p, l), recomputed(p, l), library);
    if (p.first) {
      sum.forward += nominal_work(library[t_.embed_forward]);
      sum.backward += nominal_work(library[t_.embed_backward.later]);
    }
    if (p.last) {
      sum.forward += nominal_work(library[t_.head_forward.later]);
      sum.backward += nominal_work(library[t_.head_backward.later]);
      if (t_.metrics.value() >= 0) sum.backward += nominal_work(library[t_.metrics]);
    }
  }
  return sum;
}

}  // namespace tandem::lowering
