#include "models/lowering/stage/stage_blocks.hpp"

namespace tandem::lowering {

std::vector<TemplateId> StageBlocks::used_templates(bool forward_only, bool metrics) const {
  std::vector<TemplateId> used;
  const auto add = [&](const FirstAndLater& f) { used.insert(used.end(), {f.first, f.later}); };
  const auto add_backward = [&](const FirstAndLater& f) {
    if (!forward_only) add(f);
  };
  for (const ChunkPart& p : chunks_) {
    for (std::int64_t l = 0; l < (forward_only ? p.layers : p.blocks()); ++l) {
      used.push_back(at(p, l).forward);
      if (!forward_only && recomputed(p, l)) used.push_back(at(p, l).again);
      add_backward(backward(p, l));
      if (s_.defer_weights) add_backward(at(p, l).weights);
    }
    if (p.first) used.push_back(t_.embed_forward);
    if (p.first && !s_.adapters.here()) add_backward(t_.embed_backward);
    if (p.last) add(t_.head_forward), add_backward(t_.head_backward);
    if (p.last && metrics && !forward_only) used.push_back(t_.metrics);
    if (p.mtp == 0 || forward_only) continue;
    used.insert(used.end(), {t_.mtp.final_norm_forward, t_.mtp.norm_forward, t_.mtp.forward});
    for (const FirstAndLater* f : {&t_.mtp.final_norm_backward, &t_.mtp.norm_backward, &t_.mtp.backward, &t_.mtp.words}) add(*f);
  }
  return used;
}

PassWork StageBlocks::work(const TemplateLibrary& library) const {
  const EndWork ends = end_work(t_, library);
  PassWork sum;
  for (const ChunkPart& p : chunks_) {
    for (std::int64_t l = 0; l < p.blocks(); ++l) add_layers(sum, layer_work(at(p, l), library), 1, recomputed(p, l) ? 1 : 0);
    add_ends(sum, ends, p);
  }
  return sum;
}

}  // namespace tandem::lowering
