// Final norm, logits of the vocabulary shard, and the vocabulary-parallel loss: maximum, then sums, then the
// gradient (Megatron-LM, arXiv 1909.08053 section 3), so logits never leave a rank. PyTorch's own loss needs whole
// logits: sets with whole_logits gather them over tensor ranks. BERT has a dense layer with a norm before the
// logits, and classifies sequence pairs by their first token (arXiv 1810.04805). With MTP modules, final norms are
// separate templates (mtp.cpp), and the head has a loss for the model's states and for those of each module. A loss in chunks
// is all in the backward template, because the logits of a chunk end before those of the next begin.

#include "models/lowering/templates/block_frame.hpp"
#include "models/lowering/templates/gradient_sink.hpp"
#include "models/lowering/templates/tensor_parallel.hpp"

namespace tandem::lowering {
namespace {

/// Whether the head template contains the final norm.
bool has_norm(const Shapes& s) { return s.placement == NormPlacement::pre && s.mtp == 0; }

/// Whether the head template reads other parameters of the head's region.
bool has_region(const Shapes& s) { return s.mtp == 0 ? head_region(s).elements() > 0 : s.output_bias; }

/// Whether the head's own parameters are trained.
bool trained(const Shapes& s) { return !s.adapters.here(); }

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
bool in_chunks(const Shapes& s) { return s.loss_chunks > 1; }

/// The sizes of one chunk's logits.
Shapes chunk_of(const Shapes& s) {
  Shapes piece = s;
  piece.tokens = s.tokens / s.loss_chunks;
  return piece;
}

/// Task name for the loss of module `module`; 0: the model's loss.
std::string task_name(std::int64_t module, const std::string& name) {
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

Value kept_logits(TemplateBuilder& b, const Shapes& s) {
  return b.whole(b.slot("logits", MemoryKind::activations), s.dtypes.compute, s.tokens * s.vocab_rows);
}

/// Whether the loss is PyTorch's, which copies 16-bit logits to fp32.
bool copies_for_loss(const Shapes& s) { return s.fusion.loss_copies && s.loss_type() != s.dtypes.compute; }

/// Whether each kernel of that loss is a task. BERT's frameworks compute it only for rows with a target: tasks for all rows
/// would be too many (NVIDIA/DeepLearningExamples: PyTorch/LanguageModeling/BERT/modeling.py, sequence_output_is_dense).
bool passes_for_loss(const Shapes& s) { return copies_for_loss(s) && !s.bert; }

/// Elements of the gathered tensor and of the list. A collective used both on its own stream, so PyTorch's allocator
/// reuses their bytes only after waiting for the device, and the host has allocated the loss' gradients by then
/// (pytorch/pytorch: ProcessGroupNCCL.cpp, allgather, recordStream; CUDACachingAllocator.cpp, free, insert_events).
std::int64_t of_gather(const Shapes& s) { return 2 * s.tokens * s.loss_columns(); }

ColumnParts parts_of_logits(const Shapes& s) { return {s.tokens, s.loss_columns(), s.tensor}; }

VocabDims pair_dims(const Shapes& s) { return {s.batch, 2, 2, true}; }

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
    b_.add(name + "logits", MatMul{s_.tokens, s_.vocab_rows, s_.hidden, false, true, bias}, std::move(in), {own});
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

/// The bias of the logits; empty if they have none.
Value bias_of_logits(const Shapes& s, const RegionValues& w) {
  if (s.bert) return w("head.output_bias");
  return s.output_bias ? w("output.bias") : Value{};
}

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

class HeadBackward {
 public:
  /// `first`: overwrites gradients; `first_loss`: overwrites the sum of a loss in chunks.
  HeadBackward(const Shapes& s, bool first, bool first_loss)
      : s_(s), chunk_(chunk_of(s)), first_loss_(first_loss),
        layout_(head_region(s)), output_layout_(output_region(s)), b_("head_backward", s.dtypes.compute, s.fusion),
        w_(has_region(s) ? region_slot(b_, "head", MemoryKind::weights, layout_, s.dtypes.weights) : RegionValues()),
        sink_(b_, has_region(s) && trained(s) ? gradient_slot(b_, "head_gradients", layout_, s.written_gradients()) : RegionValues(), first,
              s.mtp == 0),
        output_(b_.whole(b_.slot("output", MemoryKind::weights), s.dtypes.weights, output_layout_.elements())),
        output_sink_(b_, trained(s) ? gradient_slot(b_, "output_gradients", output_layout_, s.written_gradients()) : RegionValues(),
                     first),
        output_parts_(b_, output_sink_, s, output_layout_.specs().front().name) {}

  Template write() { return in_chunks(s_) ? write_chunks() : s_.mtp > 0 ? write_modules() : write_one(); }

 private:
  /// A chunk's logits, loss, gradients of its states and its part of the output matrix' gradient, then the next chunk's
  /// (pytorch/torchtitan b5bcd76c6: torchtitan/components/loss.py, ChunkedLossWrapper).
  Template write_chunks() {
    const Hidden x(s_, hidden_slot(b_, s_, "x"));
    const Value targets = b_.whole(b_.slot("targets", MemoryKind::activations), DType::int32, s_.tokens);
    const Value total = b_.whole(b_.slot("loss", MemoryKind::workspace), DType::fp64, 1);
    const HeadSaved t(s_, b_.slot("saved", MemoryKind::activations));
    const Hidden dx(s_, hidden_slot(b_, s_, "dx"));
    const Value n = tensor_gather(b_, s_, t.n, "final_norm"), dn = b_.scratch(dtype(), s_.tokens * s_.hidden);
    LossTasks tasks(b_, chunk_, output_, bias_of_logits(s_, w_));
    std::uint16_t last = 0;
    for (std::int64_t c = 0; c < s_.loss_chunks; ++c) {
      const std::string name = "chunk" + std::to_string(c) + "_";
      const std::int64_t states = chunk_.tokens * s_.hidden;
      const Value dlogits = b_.scratch(s_.loss_type(), chunk_.tokens * s_.loss_columns()), mine = n.part(c * states, states);
      const Value logits = tasks.logits(name, mine, dlogits, {}, true);
      const Value labels = targets.part(c * chunk_.tokens, chunk_.tokens);
      tasks.loss(name, chunk_.vocab_dims(), {logits, labels, dlogits, total, first_loss_ && c == 0, s_.global_targets});
      tasks.cap_backward(name, logits, dlogits);
      const Value narrow = own_columns(narrowed(dlogits, name), name);
      last = through_chunk(name, narrow, mine, dn.part(c * states, states), c + 1 == s_.loss_chunks);
    }
    final_norm(tensor_sum(b_, s_, dn, "logits_dgrad", last, {}).value, x.state, t, dx.state);
    return b_.finish();
  }

  /// Returns the task that writes the gradient `dn` of the states `n`.
  std::uint16_t through_chunk(const std::string& name, const Value& dlogits, const Value& n, const Value& dn, bool last) {
    const std::int64_t h = s_.hidden, v = s_.vocab_rows;
    const auto dgrad = b_.add(name + "logits_dgrad", MatMul{chunk_.tokens, h, v, false, false, false}, {dlogits, output_}, {dn});
    if (!trained(s_)) return dgrad;
    const auto wgrad = b_.add(name + "logits_wgrad", MatMul{v, h, chunk_.tokens, true, false, false}, {dlogits, n}, {output_parts_.next()});
    if (last) hold_stand_in(wgrad);
    output_parts_.add(name + "output", last);
    if (s_.output_bias) bias_gradient(name, "output.bias", dlogits, last);
    return dgrad;
  }

  /// Gradients of all hidden states, from the gradients of the logits.
  Template write_modules() {
    const States states(b_, s_, "states");
    const HeadSaved t(s_, b_.slot("saved", MemoryKind::activations));
    const States dstates(b_, s_, "dstates");
    for (std::int64_t k = 0; k <= s_.mtp; ++k) {
      const Value dlogits = k == 0 ? t.dlogits : t.mtp_dlogits[static_cast<std::size_t>(k) - 1];
      const std::string name = task_name(k, "");
      through_logits(k, own_columns(narrowed(dlogits, name), name), states.of(k), dstates.of(k));
    }
    return b_.finish();
  }

  Template write_one() {
    const Hidden x(s_, hidden_slot(b_, s_, "x"));
    HeadSaved t(s_, b_.slot("saved", MemoryKind::activations));
    t.dlogits = own_columns(narrowed(t.dlogits, ""), "");
    const Hidden dx(s_, hidden_slot(b_, s_, "dx"));
    const bool pre = s_.placement == NormPlacement::pre;
    const Value n = pre ? t.n : x.state, target = pre ? Value{} : dx.state;
    const Value dn = s_.bert ? through_transform(t, n, target) : through_logits(0, t.dlogits, n, target);
    if (s_.bert) pair_backward(t, dn);
    if (pre) final_norm(dn, x.state, t, dx.state);
    if (s_.placement == NormPlacement::post_add)
      b_.add("no_residual", Fill{dx.residual.elements, s_.dtypes.compute}, {}, {dx.residual});
    return b_.finish();
  }

  DType dtype() const { return s_.dtypes.compute; }
  /// Casts to the type of the products.
  Value narrowed(const Value& wide, const std::string& name) {
    if (wide.dtype == dtype()) return wide;
    const Value from = passes_for_loss(s_) ? through_log_softmax(wide, name) : wide;
    const Value narrow = b_.scratch(dtype(), wide.elements);
    const auto task = b_.add(name + "narrow_gradient", Accumulate{wide.elements, wide.dtype, dtype(), true}, {from}, {narrow});
    if (passes_for_loss(s_)) return narrow;
    if (s_.gathers_logits()) b_.hold_ahead(task, dtype(), of_gather(chunk_));
    for (int i = 0; copies_for_loss(s_) && i < 2; ++i) b_.hold_ahead(task, wide.dtype, wide.elements);  // nll_loss', log_softmax'
    return narrow;
  }
  /// PyTorch's nll_loss writes a gradient with one nonzero per row; log_softmax computes another one from it and its own
  /// output. Here the forward pass has computed that gradient already: `wide` stands for the output and is added to zeros.
  Value through_log_softmax(const Value& wide, const std::string& name) {
    const Value gradient = b_.scratch(wide.dtype, wide.elements);
    b_.add(name + "nll_gradient", Fill{wide.elements, wide.dtype}, {}, {gradient});
    const auto task = b_.add(name + "log_softmax_backward", Accumulate{wide.elements, wide.dtype, wide.dtype}, {wide, gradient}, {gradient});
    b_.hold(task, wide.dtype, wide.elements);  // PyTorch's is another tensor
    if (s_.gathers_logits()) b_.hold(task, dtype(), of_gather(chunk_));
    return gradient;
  }
  void open(std::string_view from, std::string_view to) { sink_.open(from, to, s_.numerics.parameter_gradient); }

  /// This rank's share of a gradient over the whole vocabulary.
  Value own_columns(const Value& dlogits, const std::string& name) {
    if (!s_.gathers_logits()) return dlogits;
    const Value by_rank = b_.scratch(dlogits.dtype, dlogits.elements);
    b_.add(name + "dlogits_split", PackColumns{parts_of_logits(chunk_)}, {dlogits}, {by_rank});
    return by_rank.share(Group::tensor, s_.tensor);
  }

  /// Gradient of the output matrix' input; in `to` if given.
  Value through_logits(std::int64_t module, const Value& dlogits, const Value& n, const Value& to) {
    const std::int64_t h = s_.hidden, v = s_.vocab_rows;
    const bool direct = to.elements > 0 && !s_.sequence_parallel;
    const Value partial = direct ? to : b_.scratch(dtype(), s_.tokens * h);
    const bool ahead = s_.sum_beside_weights && trained(s_);
    const std::string norm = task_name(module, "final_norm"), back = task_name(module, "logits_dgrad");
    const Value all = ahead ? tensor_gather(b_, s_, n, norm) : Value{};
    const auto dgrad = b_.add(back, MatMul{s_.tokens, h, v, false, false, false}, {dlogits, output_}, {partial});
    const Summed sum = tensor_sum(b_, s_, partial, back, dgrad, to);
    if (!trained(s_)) return sum.value;
    const auto wgrad = b_.add(task_name(module, "logits_wgrad"), MatMul{v, h, s_.tokens, true, false, false},
                              {dlogits, ahead ? all : tensor_gather(b_, s_, n, norm)}, {output_parts_.next()});
    if (!ahead) b_.depend(wgrad, sum.task);
    hold_stand_in(wgrad);
    output_parts_.add(task_name(module, "output"), module == s_.mtp);
    if (s_.output_bias) bias_gradient(task_name(module, ""), "output.bias", dlogits, module == s_.mtp);
    return sum.value;
  }

  /// Holds a stand-in for the output matrix' gradient. A wide gradient of the logits keeps its slot
  /// to the end of the template although it is freed by then, so only the excess over it counts.
  void hold_stand_in(std::uint16_t wgrad) {
    if (!s_.fusion.gradient_stand_ins) return;
    const std::int64_t gone = s_.loss_type() == dtype() ? 0 : bytes_of(s_.loss_type(), chunk_.tokens * s_.loss_columns()).count();
    const std::int64_t more = bytes_of(dtype(), s_.vocab_rows * s_.hidden).count() - gone;
    if (more > 0) b_.hold(wgrad, DType::fp8, more);
  }

  void bias_gradient(const std::string& task, const std::string& name, const Value& dlogits, bool last) {
    if (!bias_parts_) bias_parts_.emplace(b_, sink_, s_, name);
    b_.add(task + "output_bias_grad", BiasGrad{chunk_.tokens, s_.vocab_rows}, {dlogits}, {bias_parts_->next()});
    bias_parts_->add(task + "output_bias", last);
  }

  Value through_transform(const HeadSaved& t, const Value& n, const Value& to) {
    const std::int64_t h = s_.hidden, r = s_.rows;
    const Value dy = through_logits(0, t.dlogits, t.transformed, {});
    bias_gradient("", "head.output_bias", t.dlogits, true);
    const Value da = b_.scratch(dtype(), r * h), dd = b_.scratch(dtype(), r * h);
    open("head.norm.weight", s_.norm_bias ? "head.norm.bias" : "head.norm.weight");
    norm_backward(b_, s_, "head_norm", {dy, t.activated, t.norm_stats, w_("head.norm.weight")}, da,
                  {sink_.part("head.norm.weight"), s_.norm_bias ? sink_.part("head.norm.bias") : Value{}});
    sink_.close("head_norm");
    b_.add("transform_activation_backward", PointwiseBackward{r * h, s_.activation}, {da, t.dense}, {dd});
    dense_weights("head.transform", dd, n, r);
    const Value dn = to.elements > 0 ? to : b_.scratch(dtype(), r * h);
    b_.add("transform_dgrad", MatMul{r, h, h, false, false, false}, {dd, w_("head.transform.weight")}, {dn});
    return dn;
  }

  /// Gradients of a whole matrix and its bias: dy[rows, out], x[rows, hidden].
  void dense_weights(const std::string& name, const Value& dy, const Value& x, std::int64_t rows) {
    const std::int64_t out = dy.elements / rows;
    open(name + ".weight", name + ".bias");
    b_.add(name + "_wgrad", MatMul{out, s_.hidden, rows, true, false, false}, {dy, x}, {sink_.part(name + ".weight")});
    b_.add(name + "_bias_grad", BiasGrad{rows, out}, {dy}, {sink_.part(name + ".bias")});
    sink_.close(name);
  }

  /// Every tensor rank holds the whole classifier, so each adds the same gradient to its own rows.
  void pair_backward(const HeadSaved& t, const Value& dn) {
    const std::int64_t n = s_.batch, h = s_.hidden;
    const Value dpooled = b_.scratch(dtype(), n * h), dpooler = b_.scratch(dtype(), n * h), dfirst = b_.scratch(dtype(), n * h);
    b_.add("nsp_dgrad", MatMul{n, h, 2, false, false, false}, {t.dclass, w_("nsp.weight")}, {dpooled});
    dense_weights("nsp", t.dclass, t.pooled, n);
    b_.add("pooler_tanh_backward", PointwiseBackward{n * h, PointwiseKind::tanh}, {dpooled, t.pooler}, {dpooler});
    b_.add("pooler_dgrad", MatMul{n, h, h, false, false, false}, {dpooler, w_("pooler.weight")}, {dfirst});
    dense_weights("pooler", dpooler, t.first, n);
    if (!s_.sequence_parallel) {
      b_.add("take_first_backward", TakeFirstBackward{n, s_.seq, h}, {dfirst, dn}, {dn});
      return;
    }
    const Value all = b_.scratch(dtype(), s_.tokens * h);
    b_.add("no_pair_gradient", Fill{all.elements, dtype()}, {}, {all});
    b_.add("take_first_backward", TakeFirstBackward{n, s_.seq, h}, {dfirst, all}, {all});
    b_.add("add_pair", Accumulate{dn.elements, dtype(), dtype()}, {all.share(Group::tensor, s_.tensor), dn}, {dn});
  }

  void final_norm(const Value& dn, const Value& x, const HeadSaved& t, const Value& dx) {
    if (!trained(s_)) return norm_backward(b_, s_, "final_norm", {dn, x, t.stats, w_("final_norm.weight")}, dx);
    open("final_norm.weight", s_.norm_bias ? "final_norm.bias" : "final_norm.weight");
    norm_backward(b_, s_, "final_norm", {dn, x, t.stats, w_("final_norm.weight")}, dx,
                  {sink_.part("final_norm.weight"), s_.norm_bias ? sink_.part("final_norm.bias") : Value{}});
    sink_.close("final_norm");
  }

  const Shapes& s_;
  const Shapes chunk_;  ///< sizes of a loss in chunks; else those of all tokens
  bool first_loss_;
  RegionLayout layout_, output_layout_;
  TemplateBuilder b_;
  RegionValues w_;
  GradientSink sink_;
  Value output_;
  GradientSink output_sink_;
  GradientParts output_parts_;
  std::optional<GradientParts> bias_parts_;
};

}  // namespace

Template head_forward(const Shapes& s, bool first) { return HeadForward(s, first).write(); }
Template head_backward(const Shapes& s, bool first, bool first_loss) { return HeadBackward(s, first, first_loss).write(); }

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
