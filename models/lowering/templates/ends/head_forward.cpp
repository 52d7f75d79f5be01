// Final norm, logits of the vocabulary shard, and their loss. BERT has a dense layer with a norm before the logits, and classifies
// sequence pairs by their first token (arXiv 1810.04805). With MTP modules, final norms are separate templates (mtp.cpp), and the head
// has a loss for the model's states and for those of each module.

#include <optional>

#include "models/lowering/templates/ends/loss_tasks.hpp"

namespace tandem::lowering {
namespace {

class HeadForward {
 public:
  HeadForward(const Shapes& s, bool first)
      : s_(s), first_(first), layout_(head_region(s)), output_layout_(output_region(s)),
        b_("head_forward", s.dtypes.compute, s.fusion) {
    if (has_region(s)) w_ = region_slot(b_, "head", MemoryKind::weights, layout_, s.dtypes.weights);
    if (in_chunks(s)) return;
    const Value output = b_.whole(b_.slot("output", MemoryKind::weights), s.dtypes.weights, output_layout_.elements());
    tasks_.emplace(b_, s_, output, bias_of_logits(s, w_));
  }

  Template write() { return in_chunks(s_) ? write_norm() : s_.mtp > 0 ? write_modules() : write_one(); }

 private:
  /// The rest of a loss in chunks is in the backward template.
  Template write_norm() {
    const Hidden x(s_, hidden_slot(b_, s_, "x"));
    const HeadSaved t(s_, b_.slot("saved", MemoryKind::activations));
    norm(b_, s_, "final_norm", x.state, norm_params(s_, "final_norm", w_), {t.n, t.stats});
    return b_.finish();
  }

  Template write_one() {
    const Hidden x(s_, hidden_slot(b_, s_, "x"));
    targets_ = b_.whole(b_.slot("targets", MemoryKind::activations), DType::int32, s_.tokens);
    if (s_.bert) labels_ = b_.whole(b_.slot("labels", MemoryKind::activations), DType::int32, s_.batch);
    loss_ = b_.whole(b_.slot("loss", MemoryKind::workspace), DType::fp64, 1);
    const HeadSaved t(s_, b_.slot("saved", MemoryKind::activations));
    if (shows_metrics(s_)) logits_ = kept_logits(b_, s_);
    const bool pre = s_.placement == NormPlacement::pre;
    const Value n = !pre ? x.state : t.n.elements > 0 ? t.n : b_.scratch(s_.dtypes.compute, s_.rows * s_.hidden);
    if (pre) norm(b_, s_, "final_norm", x.state, norm_params(s_, "final_norm", w_), {n, t.stats});
    const Value logits = token_logits("", s_.bert ? transform(n, t) : n, t.dlogits);
    // BERT's two losses of a micro-batch are summed before they are accumulated, as on a data rank with only this micro-batch.
    const Value sum = loss_;
    const bool apart = s_.bert && !first_;
    if (apart) loss_ = b_.scratch(DType::fp64, 1);
    tasks_->loss("", s_.vocab_dims(), {logits, targets_, t.dlogits, loss_, first_ || apart, s_.global_targets});
    tasks_->cap_backward("", logits, t.dlogits);
    if (s_.bert) classify_pair(n, t);
    if (apart) b_.add("loss", Accumulate{1, DType::fp64, DType::fp64}, {loss_, sum}, {sum});
    return b_.finish();
  }

  /// Computes one loss after the other (megatron/core/transformer/multi_token_prediction.py, process_mtp_loss): the model's, then the
  /// modules', which are summed per micro-batch before they are accumulated, as on a data rank with only this micro-batch.
  Template write_modules() {
    const States states(b_, s_, "states");
    targets_ = b_.whole(b_.slot("targets", MemoryKind::activations), DType::int32, s_.tokens);
    const Value further = b_.whole(b_.slot("mtp_targets", MemoryKind::activations), DType::int32, s_.mtp * s_.tokens);
    const Value sums = b_.whole(b_.slot("loss", MemoryKind::workspace), DType::fp64, 2);
    const HeadSaved t(s_, b_.slot("saved", MemoryKind::activations));
    const Value kept = shows_metrics(s_) ? kept_logits(b_, s_) : Value{}, here = first_ ? sums : b_.scratch(DType::fp64, 2);
    for (std::int64_t k = 0; k <= s_.mtp; ++k) {
      const Value dlogits = k == 0 ? t.dlogits : t.mtp_dlogits[static_cast<std::size_t>(k) - 1];
      logits_ = k == 0 ? kept : Value{};
      const std::string name = task_name(k, "");
      const Value logits = token_logits(name, states.of(k), dlogits);
      const Value targets = k == 0 ? targets_ : further.part((k - 1) * s_.tokens, s_.tokens);
      const LossTasks::Loss mine{logits, targets, dlogits, here.part(k == 0 ? 0 : 1, 1), k <= 1};
      tasks_->loss(name, s_.vocab_dims(), k == 0 ? mine.over(s_.global_targets, 1) : mine.over(s_.mtp_targets(k), s_.mtp_loss));
      tasks_->cap_backward(name, logits, dlogits);
    }
    if (!first_) b_.add("loss", Accumulate{2, DType::fp64, DType::fp64}, {here, sums}, {sums});
    return b_.finish();
  }

  Value transform(const Value& n, const HeadSaved& t) {
    const std::int64_t h = s_.hidden;
    b_.add("transform", MatMul{s_.rows, h, h, false, true, true}, {n, w_("head.transform.weight"), w_("head.transform.bias")},
           {t.dense});
    b_.add("transform_activation", Pointwise{s_.rows * h, s_.activation}, {t.dense}, {t.activated});
    norm(b_, s_, "head_norm", t.activated, norm_params(s_, "head.norm", w_), {t.transformed, t.norm_stats});
    return t.transformed;
  }

  Value token_logits(const std::string& name, const Value& n, const Value& dlogits) {
    return tasks_->logits(name, n, dlogits, logits_, false);
  }

  void classify_pair(const Value& n, const HeadSaved& t) {
    const std::int64_t h = s_.hidden;
    b_.add("take_first", TakeFirst{s_.batch, s_.seq, h}, {tensor_gather(b_, s_, n, "pooler")}, {t.first});
    b_.add("pooler", MatMul{s_.batch, h, h, false, true, true}, {t.first, w_("pooler.weight"), w_("pooler.bias")}, {t.pooler});
    b_.add("pooler_tanh", Pointwise{s_.batch * h, PointwiseKind::tanh}, {t.pooler}, {t.pooled});
    const Value logits = b_.scratch(s_.dtypes.compute, s_.batch * 2);
    b_.add("nsp", MatMul{s_.batch, 2, h, false, true, true}, {t.pooled, w_("nsp.weight"), w_("nsp.bias")}, {logits});
    tasks_->loss("nsp_", pair_dims(s_), {logits, labels_, t.dclass, loss_, false, s_.global_sequences});
  }

  const Shapes& s_;
  bool first_;
  RegionLayout layout_, output_layout_;
  TemplateBuilder b_;
  RegionValues w_;
  std::optional<LossTasks> tasks_;
  Value targets_, labels_, loss_;
  Value logits_;  ///< where they outlive the loss
};

}  // namespace

Template head_forward(const Shapes& s, bool first) { return HeadForward(s, first).write(); }

}  // namespace tandem::lowering
