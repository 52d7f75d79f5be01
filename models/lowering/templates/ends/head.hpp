#pragma once
// What the templates of the head share: their sizes and what they keep.

#include "models/lowering/templates/block_frame.hpp"

namespace tandem::lowering {

/// Whether the head template contains the final norm.
inline bool has_norm(const Shapes& s) { return s.placement == NormPlacement::pre && s.mtp == 0; }

/// Whether the head template reads other parameters of the head's region.
inline bool has_region(const Shapes& s) { return s.mtp == 0 ? head_region(s).elements() > 0 : s.output_bias; }

/// Whether the head's own parameters are trained.
inline bool trained(const Shapes& s) { return !s.adapters.here(); }

/// Hidden states of the model and of each MTP module, or their gradients.
struct States {
  Value all;
  std::int64_t each;
  States(TemplateBuilder& b, const Shapes& s, std::string name)
      : all(b.whole(b.slot(std::move(name), MemoryKind::activations), s.dtypes.compute, state_elements(s))),
        each(s.rows * s.hidden) {}
  Value of(std::int64_t module) const { return all.part(module * each, each); }
};

/// Whether the head takes the loss of parts of the tokens one after the other.
inline bool in_chunks(const Shapes& s) { return s.loss_chunks > 1; }

/// The sizes of one chunk's logits.
inline Shapes chunk_of(const Shapes& s) {
  Shapes piece = s;
  piece.tokens = s.tokens / s.loss_chunks;
  return piece;
}

/// Task name for the loss of module `module`; 0: the model's loss.
inline std::string task_name(std::int64_t module, const std::string& name) {
  return module == 0 ? name : "mtp" + std::to_string(module) + "_" + name;
}

struct HeadSaved {
  Value stats, n, dlogits;
  std::vector<Value> mtp_dlogits;                         ///< by module
  Value dense, activated, norm_stats, transformed;        ///< bert's transform
  Value first, pooler, pooled, dclass;                    ///< bert's pair classifier
  HeadSaved(const Shapes& s, std::uint16_t slot) {
    SlotLayout at(slot);
    const DType d = s.dtypes.compute;
    const std::int64_t state = s.rows * s.hidden;
    if (has_norm(s)) {
      stats = at.add(s.numerics.statistics, 2 * s.rows);
      at.add(s.norm_copy_type(), s.norm_copy());
      // Only a gradient of the output matrix reads it, and logits that the backward pass computes.
      if (!s.adapters.here() || in_chunks(s)) n = at.add(d, state);
    }
    if (in_chunks(s)) return;
    dlogits = at.add(s.loss_type(), s.tokens * s.loss_columns());
    for (std::int64_t k = 0; k < s.mtp; ++k) mtp_dlogits.push_back(at.add(s.loss_type(), s.tokens * s.loss_columns()));
    if (!s.bert) return;
    dense = at.add(d, state);
    activated = at.add(d, state);
    norm_stats = at.add(s.numerics.statistics, 2 * s.rows);
    transformed = at.add(d, state);
    first = at.add(d, s.batch * s.hidden);
    pooler = at.add(d, s.batch * s.hidden);
    pooled = at.add(d, s.batch * s.hidden);
    dclass = at.add(d, s.batch * 2);
  }
};

inline Value kept_logits(TemplateBuilder& b, const Shapes& s) {
  return b.whole(b.slot("logits", MemoryKind::activations), s.dtypes.compute, s.tokens * s.vocab_rows);
}

/// Whether the loss is PyTorch's, which copies 16-bit logits to fp32.
inline bool copies_for_loss(const Shapes& s) { return s.fusion.loss_copies && s.loss_type() != s.dtypes.compute; }

/// Whether each kernel of that loss is a task. BERT's frameworks compute it only for rows with a target: tasks for all rows
/// would be too many (NVIDIA/DeepLearningExamples: PyTorch/LanguageModeling/BERT/modeling.py, sequence_output_is_dense).
inline bool passes_for_loss(const Shapes& s) { return copies_for_loss(s) && !s.bert; }

/// Elements of the gathered tensor and of the list. A collective used both on its own stream, so PyTorch's allocator
/// reuses their bytes only after waiting for the device, and the host has allocated the loss' gradients by then
/// (pytorch/pytorch: ProcessGroupNCCL.cpp, allgather, recordStream; CUDACachingAllocator.cpp, free, insert_events).
inline std::int64_t of_gather(const Shapes& s) { return 2 * s.tokens * s.loss_columns(); }

inline ColumnParts parts_of_logits(const Shapes& s) { return {s.tokens, s.loss_columns(), s.tensor}; }

inline VocabDims pair_dims(const Shapes& s) { return {s.batch, 2, 2, true}; }

/// The bias of the logits; empty if they have none.
inline Value bias_of_logits(const Shapes& s, const RegionValues& w) {
  if (s.bert) return w("head.output_bias");
  return s.output_bias ? w("output.bias") : Value{};
}

}  // namespace tandem::lowering
