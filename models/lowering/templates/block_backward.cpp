#include "models/lowering/templates/block_backward.hpp"

#include <algorithm>

namespace tandem::lowering {
namespace {

std::string template_name(const Shapes& s, BackwardPart part) {
  if (s.is_decoder()) return "decoder_backward";
  return part == BackwardPart::weights ? "block_weights" : "block_backward";
}

}  // namespace

BlockBackward::BlockBackward(const Shapes& s, const BlockBackwardKind& kind)
    : s_(s), kind_(kind), regions_(s), b_(template_name(s, kind.part), s.dtypes.compute, s.fusion),
      weights_(block_slots(b_, s, regions_)),
      sink_(sink("gradients", s.adapters.here() ? regions_.adapters : regions_.block)),
      expert_sink_(sink("expert_gradients", s.adapters.here() ? regions_.expert_adapters : regions_.experts)),
      relative_gradients_(gradient_slot(b_, "relative_gradients", regions_.relative, s.written_gradients())),
      x_whole_(hidden_slot(b_, s, "x")), x_(s, x_whole_), memory_(memory_slot(b_, s, "memory")),
      a_(b_, s, weights_, BlockSaved(s, saved_slots(b_, s, kind.part == BackwardPart::weights), true)),
      held_(deferred(0)) {
  b_.products_in(s.product);
  b_.collectives_in_pieces(s.tensor_overlap);
  a_.attends_to(x_.state);
}

GradientSink BlockBackward::sink(std::string name, const RegionLayout& layout) {
  return {b_, gradient_slot(b_, std::move(name), layout, s_.written_gradients()), kind_.first, begins_gradients()};
}

Template BlockBackward::write() {
  if (inputs()) input_path();
  else weights_path();
  if (kind_.input_unread) b_.drop_unread(dx_);
  return b_.finish();
}

void BlockBackward::input_path() {
  const Hidden dy(s_, hidden_slot(b_, s_, "dy"));
  dx_ = hidden_slot(b_, s_, "dx");
  const Hidden dx(s_, dx_);
  dmemory_ = memory_slot(b_, s_, "dmemory");
  if (split()) held_ = deferred(b_.slot("deferred", MemoryKind::activations));
  if (split()) keep_again();
  if (keeps_early()) early_sink_.emplace(b_, RegionValues(regions_.early, held_.early), true, false);
  switch (s_.placement) {
    case NormPlacement::pre: case NormPlacement::sandwich: case NormPlacement::behind: return pre(dy, dx);
    case NormPlacement::post: return post(dy, dx);
    case NormPlacement::post_add: return post_add(dy, dx);
  }
}

void BlockBackward::weights_path() {
  held_ = deferred(b_.slot("deferred", MemoryKind::activations));
  if (held_.again.elements > 0) a_.vectors_from({regions_.again, held_.again});
  if (keeps_early()) take_early();
  if (moe()) {
    expert_rows_ = held_.expert_rows;
    expert_fc1_ = held_.expert_fc1;
    expert_weights();
    router_weights(held_.logits);
  }
  if (s_.kind.feeds() && (!moe() || s_.shared_ffn > 0)) {
    const Value d_mlp = gathered(moe() && (s_.shared_gate || s_.branch_norms) ? held_.shared : held_.mlp, "mlp_gradient");
    fc2_weights(d_mlp, moe() ? "shared.fc2" : "fc2");
    fc1_weights(held_.fc1, moe() ? "shared.fc1" : "fc1");
  }
  if (!s_.kind.mixes()) return;
  proj_weights(gathered(held_.attention, "attention_gradient"));
  s_.latent.here() ? latent_weights() : input_weights(held_.qkv);
  if (s_.indexer.here()) index_weights(held_.index_q, held_.index_k, held_.index_w);
}

/// Copies block vectors for the second half, because the weights are freed before it runs.
void BlockBackward::keep_again() {
  if (held_.again.elements == 0) return;
  for (const Neighbours& n : neighbours(regions_.again, regions_.block)) {
    const Value kept = held_.again.part(n.in_part, n.elements);
    b_.add(n.in_part == 0 ? "vectors_keep" : "vectors_keep_rest", copy_of(kept), {weights_.block.whole().part(n.in_whole, n.elements)},
           {kept});
  }
}

/// Neighbours in the block's region are neighbours in the early region.
void BlockBackward::take_early() {
  std::vector<ParamSpec> all = regions_.early.specs();
  std::sort(all.begin(), all.end(), [](const ParamSpec& a, const ParamSpec& b) { return a.offset < b.offset; });
  for (std::size_t from = 0, to = 0; from < all.size(); from = to) {
    const auto shift = [&](std::size_t i) { return regions_.block.at(all[i].name).offset - all[i].offset; };
    while (to < all.size() && shift(to) == shift(from)) ++to;
    const std::string &first = all[from].name, &last = all[to - 1].name;
    sink_.open(first, last, s_.written_gradients());
    const Value kept = held_.early.part(all[from].offset, sink_.whole().elements);
    b_.add(from == 0 ? "early_gradients" : "early_gradients_rest", copy_of(kept), {kept}, {sink_.whole()});
    sink_.close(first);
  }
}

// ---- placements of norms ----

void BlockBackward::pre(const Hidden& dy, const Hidden& dx) {
  if (s_.bare_inputs) return behind(dy, dx);
  if (s_.parallel != ParallelResidual::none) return side_by_side(dy, dx);
  const BlockSaved& t = a_.at();
  if (!s_.kind.mixes() || !s_.kind.feeds()) return alone(dy, dx);
  a_.need_state(x_.state);
  const bool through = passes() && !s_.sandwich;
  const auto place = [&] { return through ? hold(held_.attention, s_.rows * s_.hidden) : rows_scratch(); };
  Value dx2;
  if (moe() && s_.branch_norms) {
    const Value d = mlp_gradient(dy.state);
    branches(d, dy.state, dx2 = place());
  } else {
    const Value d2 = feed_forward(mlp_gradient(dy.state));
    norm_gradient("ln2", {d2, t.x2, t.ln2_stats, weights_.block("ln2.weight"), &dy.state}, dx2 = place());
  }
  const Value dx1 = s_.is_decoder() ? cross(dx2) : dx2;
  const Value d1 = attention(attention_gradient(dx1), {});
  norm_gradient("ln1", {d1, x_.state, t.ln1_stats, weights_.block("ln1.weight"), &dx1}, dx.state);
}

/// Backward pass of a layer with only one sublayer.
void BlockBackward::alone(const Hidden& dy, const Hidden& dx) {
  const BlockSaved& t = a_.at();
  if (s_.kind.mixes()) {
    const Value d = attention(attention_gradient(dy.state), {});
    norm_gradient("ln1", {d, x_.state, t.ln1_stats, weights_.block("ln1.weight"), &dy.state}, dx.state);
  } else {
    const Value d = feed_forward(mlp_gradient(dy.state));
    norm_gradient("ln2", {d, x_.state, t.ln2_stats, weights_.block("ln2.weight"), &dy.state}, dx.state);
  }
}

/// Norms only after attention and MLP.
void BlockBackward::behind(const Hidden& dy, const Hidden& dx) {
  const std::int64_t n = s_.rows * s_.hidden;
  const Value d2 = feed_forward(mlp_gradient(dy.state));
  b_.add("mlp_residual", Accumulate{n, dtype(), dtype()}, {dy.state, d2}, {d2});
  const Value d1 = attention(attention_gradient(d2), dx.state);
  b_.add("attention_residual", Accumulate{n, dtype(), dtype()}, {d2, d1}, {d1});
}

/// Attention and MLP read the same state.
void BlockBackward::side_by_side(const Hidden& dy, const Hidden& dx) {
  const BlockSaved& t = a_.at();
  const std::int64_t n = s_.rows * s_.hidden;
  Value residual = dy.state;
  const Value d2 = feed_forward(mlp_gradient(dy.state));
  if (s_.parallel == ParallelResidual::two_norms) {
    residual = rows_scratch();
    norm_gradient("ln2", {d2, x_.state, t.ln2_stats, weights_.block("ln2.weight"), &dy.state}, residual);
  }
  const Value d1 = attention(attention_gradient(dy.state), {});
  if (s_.parallel == ParallelResidual::one_norm) b_.add("add_mlp_gradient", Accumulate{n, dtype(), dtype()}, {d2, d1}, {d1});
  norm_gradient("ln1", {d1, x_.state, t.ln1_stats, weights_.block("ln1.weight"), &residual}, dx.state);
}

Value BlockBackward::mlp_gradient(const Value& dy) {
  const BlockSaved& t = a_.at();
  return s_.sandwich ? behind_norm(mlp_site(), "ln2_out", dy, t.mlp_out, t.mlp_out_stats) : branch(mlp_site(), dy);
}

Value BlockBackward::attention_gradient(const Value& dy) {
  const BlockSaved& t = a_.at();
  return s_.sandwich ? behind_norm(attention_site(), "ln1_out", dy, t.attention_out, t.attention_out_stats)
                     : branch(attention_site(), dy);
}

Value BlockBackward::scaled(const Branch& at, const Value& dy) {
  if (s_.residual_scale == 1) return dy;
  const Value d = s_.hidden_dropout > 0 || s_.sandwich ? rows_scratch() : hold(at.kept, s_.rows * s_.hidden);
  b_.add(at.name + "_scale_backward", residual_scale(s_), {dy}, {d});
  return d;
}

/// Backward through factor, dropout and the norm after a sublayer.
Value BlockBackward::behind_norm(const Branch& at, const std::string& name, const Value& dy, const Value& x, const Value& stats) {
  const std::int64_t rows = s_.rows, h = s_.hidden;
  Value d = scaled(at, dy);
  if (s_.hidden_dropout > 0) {
    const Value masked = rows_scratch();
    b_.add(at.name + "_backward", BiasDropoutAddBackward{rows, h, s_.hidden_dropout, false, at.site, s_.sequence_parallel}, {d}, {masked});
    d = masked;
  }
  const Value dx = hold(at.kept, rows * h);
  norm_gradient(name, {d, x, stats, weights_.block(name + ".weight")}, dx);
  return dx;
}

void BlockBackward::post(const Hidden& dy, const Hidden& dx) {
  const BlockSaved& t = a_.at();
  const std::int64_t n = s_.rows * s_.hidden;
  const bool through = passes();
  const Value sum2 = through ? hold(held_.mlp, n) : rows_scratch();
  norm_gradient("ln2", {dy.state, t.sum2, t.ln2_stats, weights_.block("ln2.weight")}, sum2);
  const Value d2 = feed_forward(branch(mlp_site(), sum2));
  b_.add("mlp_residual", Accumulate{n, dtype(), dtype()}, {sum2, d2}, {d2});
  const Value sum1 = through ? hold(held_.attention, n) : rows_scratch();
  norm_gradient("ln1", {d2, t.sum1, t.ln1_stats, weights_.block("ln1.weight")}, sum1);
  const Value d1 = attention(branch(attention_site(), sum1), dx.state);
  b_.add("attention_residual", Accumulate{n, dtype(), dtype()}, {sum1, d1}, {d1});
}

void BlockBackward::post_add(const Hidden& dy, const Hidden& dx) {
  const BlockSaved& t = a_.at();
  const Value sum2 = passes() ? hold(held_.mlp, s_.rows * s_.hidden) : rows_scratch();
  norm_gradient("ln2", {dy.state, t.sum2, t.ln2_stats, weights_.block("ln2.weight"), &dy.residual}, sum2);
  const Value d2 = feed_forward(branch(mlp_site(), sum2));
  norm_gradient("ln1", {d2, t.sum1, t.ln1_stats, weights_.block("ln1.weight"), &sum2}, dx.residual);
  attention(branch(attention_site(), dx.residual), dx.state);
}

void BlockBackward::norm_gradient(const std::string& name, const NormGradient& n, const Value& dx) {
  if (frozen()) return norm_backward(b_, s_, name, n, dx);
  GradientSink& early = early_sink();
  early.open(name + ".weight", s_.norm_bias ? name + ".bias" : name + ".weight", gradient_type());
  norm_backward(b_, s_, name, n, dx, {early.part(name + ".weight"), s_.norm_bias ? early.part(name + ".bias") : Value{}});
  early.close(name);
}

Value BlockBackward::branch(const Branch& at, const Value& dy) {
  const std::int64_t t = s_.rows, h = s_.hidden;
  GradientSink& early = early_sink();
  const bool bias = !frozen() && early.has(at.bias);
  if (bias) early.open(at.bias, at.bias, gradient_type());
  Value dx = scaled(at, dy);
  if (s_.hidden_dropout > 0) {
    const Value masked = hold(at.kept, t * h);
    std::vector<Value> out{masked};
    if (bias) out.push_back(early.part(at.bias));
    b_.add(at.name + "_backward", BiasDropoutAddBackward{t, h, s_.hidden_dropout, bias, at.site, s_.sequence_parallel}, {dx},
           out);
    dx = masked;
  } else if (bias) {
    b_.add(at.name + "_bias_grad", BiasGrad{t, h}, {dx}, {early.part(at.bias)});
  }
  if (bias) early.close(at.name + "_bias");
  // `dy` is freed after this half of the pass, so the second half needs a copy.
  const bool must_copy = split() && (dx.slot != at.kept.slot || dx.offset != at.kept.offset);
  if (must_copy) b_.add(at.name + "_keep", copy_of(at.kept), {dx}, {at.kept});
  return dx;
}

// ---- attention ----

Value BlockBackward::attention_input() { return a_.input(1, x_.state); }

Value BlockBackward::attention(const Value& own, const Value& to) {
  const std::int64_t t = s_.tokens, h = s_.hidden, a = s_.attention;
  const Value d = gathered(own, "attention_gradient");
  const Value dmixed = scratch(t * a);
  b_.add("proj_dgrad", MatMul{t, a, h, false, false, false}, {d, a_.matrix("proj", "_dgrad")}, {dmixed});
  if (weights_here()) proj_weights(d);
  whole_adapters(a_.adapters("proj", a, h), d, dmixed, [&] { return a_.mixed(); });
  if (s_.kind.has_recurrence()) return mixer_input(recurrence(dmixed), to);
  const Value dqkv = core(s_.attention_gate ? ungated(dmixed) : dmixed);
  if (s_.indexer.here()) index_gradients();
  if (s_.latent.here()) return latent_input(dqkv, to);
  return mixer_input(s_.attention_gate ? input_gradient() : dqkv, to);
}

Value BlockBackward::mixer_input(const Value& din, const Value& to) {
  if (gathers_ahead(s_.input_matrix())) attention_input();
  const Value dx = sum_input(s_.input_matrix(), din, s_.input_columns(), to);
  if (weights_here()) input_weights(din);
  adapter_weights(a_.adapters(s_.input_matrix(), s_.hidden, s_.input_columns()), [&] { return attention_input(); });
  return dx;
}

Value BlockBackward::input_gradient() {
  if (input_gradient_.elements == 0) input_gradient_ = hold(held_.qkv, s_.tokens * s_.input_columns());
  return input_gradient_;
}

/// Notes the sum that later matrix gradients wait for, unless they may run beside it.
Value BlockBackward::summed(const Summed& sum) {
  reduced_ = sum.task;
  has_reduced_ = true;
  return sum.value;
}

/// dx = dy W, summed over the tensor group; the matrix's own gradient waits for the sum unless it may overlap it.
Value BlockBackward::sum_input(const std::string& name, const Value& dy, std::int64_t width, const Value& to) {
  const bool direct = to.elements > 0 && !s_.sequence_parallel;
  const Value partial = direct ? to : scratch(s_.tokens * s_.hidden);
  MatMul product{s_.tokens, s_.hidden, width};
  product.blocks = s_.blocks_of(name);
  const auto dgrad = b_.add(name + "_dgrad", product, {dy, a_.matrix(name, "_dgrad")}, {partial});
  through_adapters(a_.adapters(name, s_.hidden, width), dy, partial);
  return summed(tensor_sum(b_, s_, partial, name + "_dgrad", dgrad, to));
}

void BlockBackward::column_weights(const std::string& name, const Value& dy, const Value& input, std::int64_t width) {
  const bool bias = sink_.has(name + ".bias");
  const std::int64_t rows = dy.elements / width, inner = input.elements / rows;
  sink_.open(name + ".weight", bias ? name + ".bias" : name + ".weight", gradient_type());
  const ColumnBlocks blocks = s_.blocks_of(name);
  MatMul product{width, inner, rows, true};
  product.blocks = blocks;
  const auto wgrad = b_.add(name + "_wgrad", product, {dy, input}, {sink_.part(name + ".weight")});
  wait_for_sum(wgrad);
  if (bias) b_.add(name + "_bias_grad", BiasGrad{rows, width, blocks}, {dy}, {sink_.part(name + ".bias")});
}

void BlockBackward::input_weights(const Value& din) {
  column_weights(s_.input_matrix(), din, attention_input(), s_.input_columns());
  kv_copies_sum();
  sink_.close(s_.input_matrix());
}

/// Sums the gradient of shared keys and values over the ranks that hold them: each has the part of its own queries.
void BlockBackward::kv_copies_sum() {
  if (s_.kv_repeat == 1) return;
  const std::int64_t pairs = s_.pair_made();
  const auto sum = [&](const std::string& name, std::int64_t cols) {
    kv_sum(name, sink_.part(name).part((s_.input_columns() - pairs) * cols, pairs * cols));
  };
  sum("qkv.weight", s_.hidden);
  if (s_.qkv_bias) sum("qkv.bias", 1);
}

void BlockBackward::kv_sum(const std::string& name, const Value& kv) {
  b_.add(name + "_kv_all_reduce", Collective{CollectiveKind::all_reduce, s_.kv_group, kv.elements, kv.dtype, Reduce::sum}, {kv}, {kv},
         Stream::tensor);
}

// ---- adapters ----

void BlockBackward::through_adapters(const Adapters& all, const Value& dy, const Value& dx) {
  adapters_.clear();
  for (const AdapterAt& at : all) {
    adapters_.push_back(adapter_backward(b_, at, dy));
    adapter_input(b_, at, adapters_.back().du, dx);
  }
}

void BlockBackward::adapter_weights(const Adapters& all, const std::function<Value()>& x) {
  for (std::size_t i = 0; i < all.size(); ++i) adapter_weights(all[i], adapters_[i], x);
}

/// Parts of keys and values that several tensor ranks hold are summed over these, as those of the matrix itself are.
void BlockBackward::adapter_weights(const AdapterAt& at, const AdapterGradients& d, const std::function<Value()>& x) {
  const std::string a = at.name + std::string(kAdapterA), b = at.name + std::string(kAdapterB);
  const Value input = a_.adapter_input_of(at, a_.adapter_reads(at.name) ? x() : Value{});
  GradientSink& sink = at.experts.here() ? expert_sink_ : sink_;
  sink.open(b, b, gradient_type());
  wait_for_sum(gradient_of_b(b_, at, d.dz, a_.adapter_kept(at.name), sink.part(b)));
  if (at.kv_rows > 0 && s_.kv_repeat > 1) {
    const std::int64_t shared = at.kv_rows * at.rank();
    kv_sum(b, sink.part(b).part(at.out * at.rank() - shared, shared));
  }
  sink.close(at.name + "_lora_b");
  sink.open(a, a, gradient_type());
  wait_for_sum(gradient_of_a(b_, at, d.du, input, sink.part(a)));
  sink.close(at.name + "_lora_a");
}

void BlockBackward::proj_weights(const Value& d) {
  sink_.open("proj.weight", "proj.weight", gradient_type());
  b_.add("proj_wgrad", MatMul{s_.hidden, s_.attention, s_.tokens, true, false, false}, {d, a_.mixed()},
         {sink_.part("proj.weight")});
  sink_.close("proj");
}

// ---- feed-forward ----

Value BlockBackward::mlp_input() { return a_.mlp_input(x_.state); }

/// dx of an activation over `rows` rows, given dy and the x it read.
Value BlockBackward::activation_backward(const std::string& name, std::int64_t rows, const Value& dy, const Value& x,
                                         const Value& dx) {
  const Op op = s_.gated ? Op(GatedPointwiseBackward{rows, dy.elements / rows, s_.gate})
                         : Op(PointwiseBackward{dy.elements, s_.activation, a_.activation_bias(name).elements});
  std::vector<Value> in{dy, x};
  if (const Value bias = a_.activation_bias(name); bias.elements > 0) in.push_back(bias);
  b_.add(name + "_backward", op, std::move(in), {dx});
  return dx;
}

Value BlockBackward::feed_forward(const Value& own) {
  if (moe()) return experts(own);
  const Value d = gathered(own, "mlp_gradient");
  const std::int64_t t = s_.tokens, h = s_.hidden, f = s_.ffn;
  if (s_.whole_modules && !s_.keep.fc1) mlp_to_end("fc2", f);
  const Value da = scratch(t * f);
  b_.add("fc2_dgrad", MatMul{t, f, h, false, false, false}, {d, a_.matrix("fc2", "_dgrad")}, {da});
  if (weights_here()) fc2_weights(d, "fc2");
  whole_adapters(a_.adapters("fc2", f, h), d, da, [&] { return a_.activated(a_.at().activated.ready ? Value{} : mlp_input()); });
  const Value df = fc1_gradient(da);
  if (gathers_ahead("fc1")) mlp_input();
  const Value dx = sum_input("fc1", df, s_.fc1, {});
  if (weights_here()) fc1_weights(df, "fc1");
  adapter_weights(a_.adapters("fc1", h, s_.fc1), [&] { return mlp_input(); });
  return dx;
}

void BlockBackward::mlp_to_end(const std::string& name, std::int64_t inner) {
  const Value x = a_.activated(mlp_input()), out = scratch(s_.tokens * s_.hidden);
  const auto product = b_.add(name, MatMul{s_.tokens, s_.hidden, inner, false, true, false}, {x, a_.matrix(name)}, {out});
  tensor_sum(b_, s_, out, name, product);
}

/// Output gradient of the MLP's first matrix, from the output gradient of the activation.
Value BlockBackward::fc1_gradient(const Value& da) {
  const std::vector<Value> pieces = a_.fc1(a_.fc1_ready() ? Value{} : mlp_input());
  std::int64_t all = 0, row = 0;
  for (const Value& x : pieces) all += x.elements;
  const Value df = hold(held_.fc1, all);
  const std::int64_t width = all / s_.tokens, inner = da.elements / s_.tokens;
  if (pieces.size() == 1) return activation_backward("activation", s_.tokens, da, pieces[0], df);
  for (const Value& x : pieces) {
    const std::int64_t rows = x.elements / width;
    activation_backward(row == 0 ? "activation" : "activation_rest", rows, da.part(row * inner, rows * inner), x,
                        df.part(row * width, rows * width));
    row += rows;
  }
  return df;
}

void BlockBackward::fc2_weights(const Value& d, const std::string& name) {
  const bool ready = a_.at().activated.ready;
  const Value x = a_.activated(ready ? Value{} : mlp_input());
  const std::int64_t width = x.elements / s_.tokens;
  sink_.open(name + ".weight", name + ".weight", gradient_type());
  b_.add(name + "_wgrad", MatMul{s_.hidden, width, s_.tokens, true, false, false}, {d, x}, {sink_.part(name + ".weight")});
  sink_.close(name);
}

void BlockBackward::fc1_weights(const Value& df, const std::string& name) {
  column_weights(name, df, mlp_input(), df.elements / s_.tokens);
  sink_.close(name);
}

Template block_backward(const Shapes& s, const BlockBackwardKind& kind) { return BlockBackward(s, kind).write(); }

}  // namespace tandem::lowering
