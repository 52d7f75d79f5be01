#pragma once
// The vocabulary-parallel loss: maximum, then sums, then the gradient (Megatron-LM, arXiv 1909.08053 section 3), so logits never leave a
// rank. PyTorch's own loss needs whole logits: sets with whole_logits gather them over tensor ranks.

#include "models/lowering/templates/ends/head.hpp"
#include "models/lowering/templates/tensor_parallel.hpp"

namespace tandem::lowering {

/// The logits of some tokens and their loss.
class LossTasks {
 public:
  /// `bias` is empty in a model without one.
  LossTasks(TemplateBuilder& b, const Shapes& s, Value output, Value bias)
      : b_(b), s_(s), output_(std::move(output)), bias_(std::move(bias)) {}

  struct Loss {
    Value logits, targets, dlogits, total;
    bool first;  ///< overwrites `total`
    std::int64_t global_targets = 0;
    double weight = 1;

    Loss over(std::int64_t targets_of_batch, double share) const {
      Loss l = *this;
      l.global_targets = targets_of_batch;
      l.weight = share;
      return l;
    }
  };

  /// Logits of `n`, in `into` if given. `gathered`: `n` has the rows of all tensor ranks.
  Value logits(const std::string& name, const Value& n, const Value& dlogits, const Value& into, bool gathered) {
    Value logits = into;
    if (logits.elements == 0)
      logits = in_place() ? dlogits : b_.scratch(s_.dtypes.compute, s_.tokens * s_.loss_columns());
    const Value own = s_.gathers_logits() ? b_.scratch(s_.dtypes.compute, s_.tokens * s_.vocab_rows) : logits;
    std::vector<Value> in{gathered ? n : tensor_gather(b_, s_, n, name + "final_norm"), output_};
    const bool bias = bias_.elements > 0;
    if (bias) in.push_back(bias_);
    const auto product = b_.add(name + "logits", MatMul{s_.tokens, s_.vocab_rows, s_.hidden, false, true, bias}, std::move(in), {own});
    if (in_chunks(s_)) b_.repeats_none(product);
    if (s_.logit_scale != 1) b_.add(name + "logit_scale", logit_scale(own), {own}, {own});
    if (s_.gathers_logits()) gather_logits(name, own, logits);
    if (s_.logit_soft_cap > 0) b_.add(name + "logit_cap", SoftCap{logits.elements, s_.logit_soft_cap}, {logits}, {logits});
    return logits;
  }

  void loss(const std::string& name, const VocabDims& dims, const Loss& l) {
    const bool copies = copies_for_loss(s_) && l.dlogits.dtype != s_.dtypes.compute;
    if (copies && passes_for_loss(s_)) copy_logits(name, l.logits);
    const Value max = b_.scratch(s_.numerics.loss_sums, dims.rows), sums = b_.scratch(s_.numerics.loss_sums, 2 * dims.rows);
    const auto vocab_max = b_.add(name + "vocab_max", VocabMax{dims}, {l.logits}, {max});
    if (!dims.whole) tensor_all_reduce(b_, s_, max, name + "vocab_max", vocab_max, Reduce::max);
    const auto exp_sum = b_.add(name + "vocab_exp_sum", VocabExpSum{dims}, {l.logits, max, l.targets}, {sums});
    if (!dims.whole) tensor_all_reduce(b_, s_, sums, name + "vocab_exp_sum", exp_sum);
    std::vector<Value> in{l.logits, max, sums, l.targets};
    if (!l.first) in.push_back(l.total);
    const auto entropy =
        b_.add(name + "cross_entropy", CrossEntropy{dims, l.global_targets, l.first, false, l.weight}, std::move(in), {l.total, l.dlogits});
    if (copies) b_.hold(entropy, DType::fp32, l.logits.elements);
    if (s_.gathers_logits() && dims.cols == s_.loss_columns()) b_.hold(entropy, s_.dtypes.compute, of_gather(s_));
  }

  /// Backward through the soft cap and the factor of logits.
  void cap_backward(const std::string& name, const Value& logits, const Value& dlogits) {
    if (s_.logit_soft_cap > 0)
      b_.add(name + "logit_cap_backward", SoftCapBackward{logits.elements, s_.logit_soft_cap}, {dlogits, logits}, {dlogits});
    if (s_.logit_scale != 1) b_.add(name + "logit_scale_backward", logit_scale(dlogits), {dlogits}, {dlogits});
  }

 private:
  Elementwise logit_scale(const Value& logits) const {
    return {s_.tokens, logits.elements / s_.tokens, ElementwiseKind::multiply, Spread::none, s_.logit_scale};
  }

  /// The gradient of a soft cap reads the cap's output.
  bool in_place() const { return s_.fusion.loss_in_place && s_.logit_soft_cap == 0; }

  /// torch.distributed.all_gather: vocabulary shards arrive rank by rank
  /// in one tensor and are copied to a list, which torch.cat concatenates.
  void gather_logits(const std::string& name, const Value& own, const Value& logits) {
    const Value flat = b_.scratch(own.dtype, logits.elements), list = b_.scratch(own.dtype, logits.elements);
    b_.add(name + "logits_all_gather", Collective{CollectiveKind::all_gather, Group::tensor, logits.elements, own.dtype}, {own}, {flat},
           Stream::tensor);
    b_.add(name + "logits_list", copy_of(flat), {flat}, {list});
    b_.add(name + "logits_join", UnpackColumns{parts_of_logits(s_)}, {list}, {logits});
  }

  /// PyTorch's log_softmax reads an fp32 copy. Here the loss reads the logits themselves, so the copy only takes its time.
  void copy_logits(const std::string& name, const Value& logits) {
    const Value wide = b_.scratch(DType::fp32, logits.elements);
    b_.add(name + "logits_copy", Accumulate{logits.elements, logits.dtype, wide.dtype, true}, {logits}, {wide});
  }

  TemplateBuilder& b_;
  const Shapes& s_;
  Value output_, bias_;
};

}  // namespace tandem::lowering
