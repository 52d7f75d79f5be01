// Metrics that a trainer computes from the logits of every micro-batch.

#include "models/lowering/templates/ends/head.hpp"

namespace tandem::lowering {

bool shows_metrics(const Shapes& s) { return s.fusion.metrics > 0 && !s.bert && s.tensor == 1; }

/// log_softmax writes as many fp32 numbers as it reads, like a loss with its gradient; no task reads them.
Template metrics(const Shapes& s) {
  TemplateBuilder b("metrics", DType::fp32, s.fusion);
  const Value targets = b.whole(b.slot("targets", MemoryKind::activations), DType::int32, s.tokens);
  const Value logits = kept_logits(b, s);
  const std::int64_t n = logits.elements;
  SlotLayout copies(b.slot("copies", MemoryKind::activations));
  const bool narrow = bits(logits.dtype) < 32;
  const Value wide = narrow ? copies.add(DType::fp32, n) : logits, log_softmax = copies.add(DType::fp32, n);
  for (std::int64_t i = 0; i < s.fusion.metrics; ++i) {
    if (narrow) b.add("logits_copy", Accumulate{n, logits.dtype, DType::fp32, true}, {logits}, {wide});
    const Value loss = b.scratch(DType::fp64, 1);
    b.add("metric", CrossEntropy{s.vocab_dims(), s.global_targets, true, true}, {wide, targets}, {loss, log_softmax});
  }
  return b.finish();
}

}  // namespace tandem::lowering
