#pragma once
// What a transformer block keeps for its backward pass, laid out alike in forward, recompute and backward. A tensor that is
// not kept is empty here and computed again where it is needed.
//
// A schedule that splits the backward pass needs two slots. Tensors that only the input's gradient reads are freed after that part;
// tensors that the weights' gradients read stay until theirs (arXiv 2401.10241, table 1: the first part leaves M_W of M_B).

#include <map>
#include <utility>
#include <vector>

#include "models/lowering/shapes/adapter_places.hpp"
#include "models/lowering/shapes/core_dims.hpp"
#include "models/lowering/shapes/kept_norms.hpp"
#include "models/lowering/templates/template_builder.hpp"

namespace tandem::lowering {

/// A tensor of the forward pass. `elements` is 0 if it is not kept. `ready`: it can be read, because a task of this template or an
/// earlier template has written it.
struct Kept : Value {
  bool ready = false;
  bool kept() const { return elements > 0; }
};

/// Tensors that a layer of experts keeps for its backward pass.
struct MoeSaved {
  Kept probs, weights, slots, counts, logits, dispatched, fc1, activated, returned;
  Kept arrived;   ///< number of rows for each of this rank's experts from each rank, if the numbers differ
  Kept gathered;  ///< `arrived` of all ranks with slices of the same experts, if each has rows of its own and the numbers differ
  Kept placed, all_weights;  ///< if a rank gathers all tokens: places of their rows among its experts'; weights of all choices
  Kept gate, shared;  ///< logits of the shared experts' gate, and the output that it scales
  // With norms of both branches: inputs of experts and router, outputs of both branches, and the statistics of these norms.
  Kept n, n_stats, router_n, router_stats, experts_out, experts_stats, shared_out, shared_stats;
  Kept load;      ///< how often all tensor ranks chose each expert, if each has rows of its own and there is an auxiliary loss
};

/// Tensors that a decoder's attention to the encoder's output keeps. `x`: the residual stream to which its result is added.
struct CrossSaved {
  Kept x, norm_stats, n, q, kv, scores, probs, dropped, stats, context;
};

/// Compressed queries, keys and values that latent attention keeps. `turned`: the heads' common part of keys, after rotary
/// embedding.
struct LatentSaved {
  Kept q_down, q_stats, q, kv_down, kv_stats, kv, turned;
};

/// Tensors that an indexer keeps. `q`, `k`: after rotary embedding; `q_down`, `k_down`: before their norms; `w`: weights of the
/// heads. `chosen`: chosen keys. An indexer that chooses blocks of keys has no `w`; `stats` are its scores' statistics.
struct IndexSaved {
  Kept q_down, q_stats, q, k_down, k_stats, k, w, chosen, stats;
};

/// Tensors that a recurrence keeps: its inputs (ScanInput), outputs of convolution and recurrence itself; statistics of the norm
/// after it.
struct RecurrenceSaved {
  Kept in, mixed, out, stats;
};

/// An adapter's output A x, and its input after dropout.
struct AdapterSaved {
  Kept inner, dropped;
};
/// By the adapter's name.
using AdaptersSaved = std::map<std::string, AdapterSaved, std::less<>>;

/// Slots of the kept tensors. A backward pass that is not split needs only the first two.
struct SavedSlots {
  std::uint16_t saved = 0;          ///< tensors that only the input's gradient reads; 0: the template has no such slot
  std::uint16_t offloaded = 0;      ///< tensors that wait in host memory; 0: there are none
  std::uint16_t weight_inputs = 0;  ///< tensors that the weights' gradients read too; used only by a split backward pass
};

struct BlockSaved {
  Kept ln1_stats, n1, unnormed, qk_sums, qkv, scores, probs, dropped, attention_stats, core_context, context;
  Kept sum1, x2, ln2_stats, n2, fc1, activated, sum2;
  Kept all1, all2;  ///< n1 and n2 of all tensor ranks' rows
  Kept attention_out, attention_out_stats, mlp_out, mlp_out_stats;  ///< what norms behind attention and MLP read, and their statistics
  MoeSaved moe;
  CrossSaved cross;
  LatentSaved latent;
  IndexSaved index;
  RecurrenceSaved recurrence;
  AdaptersSaved adapters;
  Kept gate, gated;               ///< what scales attention's output, and that output scaled
  std::vector<Value> offloaded;   ///< those that wait in host memory
  std::int64_t offloaded_held = 0;  ///< bytes that a framework holds beside these

  /// `written`: the forward pass has run, everything kept can be read.
  BlockSaved(const Shapes& s, const SavedSlots& slots, bool written)
      : at_(slots.saved), host_(slots.offloaded), later_(slots.weight_inputs), s_(s), has_saved_(slots.saved > 0),
        has_offloaded_(slots.offloaded > 0), goes_(has_offloaded_ && s.on_host.all), written_(written) {
    if (s.kind.mixes()) save_mixer();
    if (s.kind.feeds()) save_second_norm();
    if (s.is_decoder()) save_cross();
    if (s.has_experts()) save_experts();
    else if (s.kind.feeds()) save_mlp();
    save_adapters();
  }

 private:
  /// Whether tensors that are added go to the host, until it ends.
  struct Going {
    bool &now, before;
    ~Going() { now = before; }
  };
  /// Tensors of a module. `listed`: the plan sends them.
  [[nodiscard]] Going going(bool listed) { return {goes_, std::exchange(goes_, has_offloaded_ && (s_.on_host.all || listed))}; }
  /// Tensors that the host reads in the backward pass: numbers of rows.
  [[nodiscard]] Going staying() { return {goes_, std::exchange(goes_, false)}; }
  Value place(DType dtype, std::int64_t elements) {
    if (!goes_) return at_.add(dtype, elements);
    return offloaded.emplace_back(host_.add(dtype, elements));
  }
  void place_held(DType dtype, std::int64_t elements) {
    (goes_ ? host_ : at_).add(dtype, elements);
    if (goes_) offloaded_held += bytes_of(dtype, elements).count();
  }

  /// Keeps a tensor only for the input's gradient.
  Kept keep(bool kept, std::int64_t elements) { return keep(kept, elements, s_.dtypes.compute); }
  Kept keep(bool kept, std::int64_t elements, DType dtype) {
    return kept && has_saved_ ? Kept{place(dtype, elements), written_} : Kept{};
  }
  /// For the weights' gradients too.
  Kept keep_inputs(DType dtype, std::int64_t elements) {
    return {s_.defer_weights ? later_.add(dtype, elements) : place(dtype, elements), written_};
  }
  Kept keep_inputs(bool kept, std::int64_t elements) { return kept ? keep_inputs(s_.dtypes.compute, elements) : Kept{}; }
  /// The input of a product of a linear layer, in the type in which the framework keeps it, behind its scales.
  Kept keep_operand(bool kept, std::int64_t elements) {
    if (!kept) return {};
    if (s_.narrow.inputs) hold_scales(s_.scales(elements));
    return keep_inputs(s_.kept_input(), elements);
  }
  void hold_scales(std::int64_t n) { s_.defer_weights ? void(later_.add(DType::fp8, n)) : place_held(DType::fp8, n); }
  /// Whether the backward pass reads the input of product `name`: for the gradient of its matrix or, where that is frozen, of A.
  bool reads_input(std::string_view name) const {
    return !s_.adapters.here() || (s_.adapters.on(name) && !keeps_dropped(name));
  }
  /// The same for the input of attention and, if one norm serves both, of the MLP.
  bool reads_first() const {
    return reads_input(s_.input_matrix()) || (s_.parallel == ParallelResidual::one_norm && reads_input("fc1"));
  }
  /// Whether A's input after dropout is kept: autograd keeps it, except in a module that is recomputed.
  bool keeps_dropped(std::string_view name) const {
    if (s_.adapters.dropout == 0) return false;
    if (name == "proj") return s_.keep.context;
    if (name.starts_with("experts.")) return s_.keep.expert_fc1;
    return !of_mlp(name).starts_with("fc") || (s_.has_experts() ? s_.keep.shared_fc1 : s_.keep.fc1);
  }
  /// The adapters of a matrix with `in` columns. Each draws masks of its own.
  void save_adapter(const std::string& matrix, std::int64_t rows, std::int64_t in) {
    for (const AdapterPlace& at : adapters_of(s_, matrix, 0)) {
      const bool dropped = keeps_dropped(matrix);
      if (dropped) mask(rows * in);
      const Kept inner = keep_inputs(true, rows * s_.adapters.rank);
      adapters.emplace(at.name, AdapterSaved{inner, keep_inputs(dropped, rows * in)});
    }
  }
  void save_adapters() {
    if (s_.kind.has_attention()) save_adapter("qkv", s_.tokens, s_.hidden);
    if (s_.kind.mixes()) save_adapter("proj", s_.tokens, s_.attention);
    const std::int64_t ffn = s_.has_experts() ? s_.shared_ffn : s_.ffn;
    const std::string mlp = s_.has_experts() ? "shared." : "";
    if (s_.kind.feeds() && ffn > 0) {
      save_adapter(mlp + "fc1", s_.tokens, s_.hidden);
      save_adapter(mlp + "fc2", s_.tokens, ffn);
    }
    if (!s_.has_experts()) return;
    save_adapter("experts.fc1", s_.expert_rows(), s_.hidden);
    save_adapter("experts.fc2", s_.expert_rows(), s_.expert_ffn);
  }

  /// Attention's output: kept by attention where that has no score matrix and is not computed again, and by the product behind it.
  Kept keep_context(bool kept, bool by_attention, std::int64_t elements) {
    const bool both = s_.narrow.attention_output == AttentionOutput::both;
    if (!both) return keep_inputs(kept, elements);
    if (!by_attention) return keep_operand(kept, elements);
    if (kept) hold(s_.product, elements);
    return keep_inputs(kept, elements);
  }
  /// Keeps a tensor for the weights' gradients if these recompute something from it.
  Kept keep_for(bool weights, bool kept, std::int64_t elements) { return keep_for(weights, kept, elements, s_.dtypes.compute); }
  Kept keep_for(bool weights, bool kept, std::int64_t elements, DType dtype) {
    if (!weights) return keep(kept, elements, dtype);
    return kept ? keep_inputs(dtype, elements) : Kept{};
  }
  /// Weight passes read it, too, where they make the activation's output again (`activated` is false).
  Kept keep_activation_input(bool kept, bool activated, std::int64_t elements) {
    return keep_for(!activated, kept, elements, s_.kept_activation_input());
  }

  /// Never written: what a framework holds beside what is read again.
  void hold(DType dtype, std::int64_t elements) {
    if (has_saved_) place_held(dtype, elements);
  }
  /// Dropout is a function of positions here, so only frameworks hold what was dropped.
  void mask(std::int64_t elements) {
    if (s_.fusion.dropout_masks) hold(DType::fp8, elements);
  }

  /// Ahead of what is written, because a slot ends where its last tensor does.
  void norm_copy(bool kept) {
    if (kept) hold(s_.norm_copy_type(), s_.norm_copy());
  }

  std::int64_t state() const { return s_.rows * s_.hidden; }
  /// Whether a sublayer's input comes from the state before its norm, whose output is `kept` or not.
  bool normed_again(bool kept) const { return s_.placement != NormPlacement::pre || s_.bare_inputs || !kept; }

  void save_mixer() {
    const bool kept = keeps_first_norm(s_), again = normed_again(kept);
    ln1_stats = keep_for(again, !s_.bare_inputs, 2 * s_.rows, s_.numerics.statistics);
    if (!s_.bare_inputs) norm_copy(kept);
    save_first_input(again, s_.keeps_gathered() && !again && !s_.latent.here());
    s_.kind.has_recurrence() ? save_recurrence() : save_attention();
    sum1 = keep(s_.placement != NormPlacement::pre, state());
    attention_out = keep(s_.sandwich, state());
    attention_out_stats = keep(s_.sandwich, 2 * s_.rows, s_.numerics.statistics);
  }

  /// `again`: it comes from the state before its norm. `gathered`: all ranks' parts are kept.
  void save_first_input(bool again, bool gathered) {
    const Going qkv_reads = going(s_.on_host.qkv);
    n1 = keep_operand(!again && !gathered && reads_first(), state());
    all1 = keep_operand(gathered && reads_first(), s_.tokens * s_.hidden);
  }

  /// Megatron-Core's mixer keeps the outputs of first product and recurrence. It recomputes the convolution if one
  /// function has all of it (state-spaces/mamba: mamba_ssm/ops/triton/ssd_combined.py, MambaSplitConv1dScanCombinedFn). The delta rule
  /// keeps queries, keys and values, for every chunk the inverse of its keys' scores, and numbers in fp32
  /// (fla-org/flash-linear-attention: fla/ops/gated_delta_rule/chunk.py, ChunkGatedDeltaRuleFunction).
  void save_recurrence() {
    const RecurrenceDims d = s_.recurrence_dims();
    const bool delta = d.rule == RecurrenceRule::gated_delta;
    const ScanInput places(s_);
    recurrence.in = keep(true, places.end);
    recurrence.mixed = keep(delta, places.mixed);
    if (delta) hold(s_.dtypes.compute, d.rows() * d.heads * d.chunk());
    hold(s_.numerics.statistics, d.rows() * d.scalars());
    recurrence.out = keep(true, d.rows() * d.values());
    recurrence.stats = keep(true, d.rows() * (delta ? d.heads : d.key_heads), s_.numerics.statistics);
    if (s_.hidden_dropout > 0) mask((s_.kind.feeds() ? 2 : 1) * state());
    context = keep_operand(true, d.rows() * d.values());
  }

  void save_attention() {
    save_norms();
    if (s_.latent.here()) save_latent();
    if (s_.indexer.here()) save_index();
    save_core();
    attention_stats = keep(s_.flash && s_.keep.core, stats_elements(core_dims(s_)), s_.numerics.statistics);
    save_context();
  }

  void save_norms() {
    const Going qkv_makes = going(s_.on_host.qkv);
    unnormed = keep(s_.norms_qk(), s_.unnormed());
    qk_sums = keep(s_.qk_norm == QkNorm::row, 2 * s_.tokens, s_.numerics.statistics);
  }

  void save_core() {
    const Going core_reads = going(s_.on_host.core);
    const AttentionDims core = core_dims(s_);
    const bool score_path = !s_.flash && s_.keep.core;
    save_qkv();
    if (s_.rotary && !s_.latent.here() && s_.fusion.rotated_copies && !s_.keep.by_products)
      hold(s_.dtypes.compute, s_.tokens * (s_.heads + s_.kv_heads) * s_.head_dim);
    // The gradient of a soft cap reads what it wrote.
    scores = keep(!s_.flash && (s_.keep.scores || (s_.attention_soft_cap > 0 && s_.keep.core)), score_elements(core));
    probs = keep(score_path, score_elements(core));
    if (score_path && s_.widens_softmax()) hold(DType::fp32, score_elements(core) - score_elements(core) / 2);  // past the narrow ones
    if (score_path && s_.attention_dropout > 0) mask(score_elements(core));
    save_residual_masks();
    dropped = s_.attention_dropout > 0 ? keep(score_path, score_elements(core)) : probs;
  }

  void save_residual_masks() {
    const Going own = going(false);
    if (s_.hidden_dropout > 0) mask((s_.kind.feeds() ? 2 : 1) * state());
  }

  /// Core and projection keep the same tensor, unless heads were exchanged.
  void save_context() {
    const Going both_read = going(s_.on_host.core && s_.on_host.projection);
    const bool exchanges = s_.exchanges_heads();
    const bool by_attention = s_.flash && s_.keep.core && !exchanges;
    const std::int64_t n = s_.tokens * s_.attention;
    context = keep_context(s_.keep.context && (s_.flash || reads_input("proj")), by_attention, n);
    // With heads exchanged, attention computes another share of the context than the one that goes on.
    core_context = exchanges ? keep(s_.flash, n) : context;
    gated = keep_operand(s_.attention_gate, n);
  }

  /// One product gives the gate, too.
  void save_qkv() {
    const std::int64_t n = core_qkv_elements(s_), gates = s_.attention_gate ? s_.tokens * s_.attention : 0;
    qkv = keep(s_.keep.up, n + gates);
    if (gates == 0 || !qkv.kept()) return;
    gate = {qkv.part(0, gates), written_};
    qkv = {qkv.part(gates, n), written_};
  }

  void save_second_norm() {
    const bool kept = keeps_second_norm(s_), again = normed_again(kept);
    const bool second_norm = s_.parallel != ParallelResidual::one_norm && !s_.bare_inputs;
    save_middle(again);
    ln2_stats = keep_for(again, second_norm, 2 * s_.rows, s_.numerics.statistics);
    if (second_norm) norm_copy(kept);
    // Experts' router and dispatch read it wide; a product of the layer has a narrow one only in a shared expert.
    const bool experts = s_.has_experts();
    const bool shared = experts && s_.shared_ffn > 0 && s_.narrow.inputs && s_.narrow.attention_output == AttentionOutput::both;
    if (shared && !again) hold(s_.product, state());
    const bool gathered = s_.keeps_gathered() && !experts && !again && second_norm;
    n2 = experts ? keep_inputs(!again && second_norm && reads_experts_input(), state())
                 : keep_operand(!again && second_norm && !gathered && reads_input("fc1"), state());
    all2 = keep_operand(gathered && reads_input("fc1"), s_.tokens * s_.hidden);
  }

  void save_middle(bool again) {
    const Going norm_reads = going(s_.on_host.mlp_norm);
    x2 = keep_for(again, s_.kind.mixes() && s_.keep.state && s_.parallel == ParallelResidual::none, state());
  }

  /// Frozen, a router and experts do not read their input again, unless their products are computed again.
  bool reads_experts_input() const {
    const bool dispatches = !s_.keep.expert_fc1 || (!s_.keep.dispatched && reads_input("experts.fc1"));
    const bool shared = s_.shared_ffn > 0 && (!s_.keep.shared_fc1 || reads_input("fc1"));
    return !s_.adapters.here() || s_.weigh_inputs || dispatches || shared;
  }

  void save_latent() {
    const Going qkv_makes = going(s_.on_host.qkv);
    const bool norms = keeps_latent_norms(s_);
    const std::int64_t queries = s_.rows * s_.latent.query_rank, pairs = s_.rows * s_.latent.kv_rank;
    latent.q_down = keep_for(!norms, queries > 0, queries);
    latent.q_stats = keep_for(!norms, queries > 0, 2 * s_.rows, s_.numerics.statistics);
    latent.q = keep_operand(norms && queries > 0, queries);
    latent.kv_down = keep_for(!norms, true, pairs + s_.rows * s_.rotary_dim);
    latent.kv_stats = keep_for(!norms, true, 2 * s_.rows, s_.numerics.statistics);
    latent.kv = keep_operand(norms, pairs);
    latent.turned = keep(norms && !s_.keep.up, s_.rows * s_.rotary_dim);
  }

  /// Scores are kept nowhere: the backward pass makes those of the chosen keys again.
  void save_index() {
    if (s_.indexer.blocks()) return save_block_index();
    const IndexDims d = s_.index_dims();
    index.q = keep(true, d.query_elements());
    index.k_down = keep(true, s_.tokens * d.head_dim);
    index.k_stats = keep(true, 2 * s_.tokens, s_.numerics.statistics);
    index.k = keep(s_.keep.norms, s_.tokens * d.head_dim);
    index.w = keep(true, s_.tokens * d.heads);
    index.chosen = keep(true, d.rows() * d.listed(), DType::int32);
  }

  void save_block_index() {
    const IndexDims d = s_.index_dims();
    const bool norms = s_.norms_qk(), behind = !norms || s_.keep.norms;
    const std::int64_t key = s_.tokens * d.head_dim;
    index.q_down = keep(norms, d.query_elements());
    index.q_stats = keep(norms, 2 * s_.tokens * d.heads, s_.numerics.statistics);
    index.q = keep(behind, d.query_elements());
    index.k_down = keep(norms, key);
    index.k_stats = keep(norms, 2 * s_.tokens, s_.numerics.statistics);
    index.k = keep(behind, key);
    index.chosen = keep(true, d.rows() * d.listed(), DType::int32);
    index.stats = keep(true, d.rows() * d.heads, s_.numerics.statistics);
  }

  void save_cross() {
    const AttentionDims d = s_.cross_dims();
    cross.x = keep(true, s_.rows * s_.hidden);
    cross.norm_stats = keep(true, 2 * s_.rows, s_.numerics.statistics);
    norm_copy(s_.keep.norms);
    cross.n = keep(s_.keep.norms, s_.rows * s_.hidden);
    cross.q = keep(true, s_.tokens * d.q_width());
    cross.kv = keep(true, s_.memory_tokens() * d.kv_width());
    const bool score_path = !s_.flash && s_.keep.core;
    cross.scores = keep(!s_.flash && s_.keep.scores, score_elements(d));
    cross.probs = keep(score_path, score_elements(d));
    cross.dropped = s_.attention_dropout > 0 ? keep(score_path, score_elements(d)) : cross.probs;
    cross.stats = keep(s_.flash && s_.keep.core, stats_elements(d), s_.numerics.statistics);
    cross.context = keep(true, s_.tokens * d.q_width());
  }

  void save_mlp() {
    save_last_product();  // ahead of what is written, because a slot ends where its last tensor does
    fc1 = keep_activation_input(s_.keep.fc1, s_.keep.activated, s_.fc1_rows() * s_.fc1);
    if (s_.gated && s_.fusion.gate_kept && s_.keep.activated) hold(s_.dtypes.compute, s_.tokens * s_.ffn);
    activated = keep_operand(s_.keep.activated && reads_input("fc2"), s_.tokens * s_.ffn);
    save_sum();
  }

  /// Eager PyTorch's selective checkpoint keeps every product that it does not repeat, even the last one, which no task reads. It
  /// repeats the product of keys, which is kept here because one product computes queries, keys and values.
  /// A compiler keeps only tensors that are read. (torch/utils/checkpoint.py, _CachingTorchDispatchMode)
  void save_last_product() {
    const std::int64_t keys = s_.tokens * s_.kv_heads * s_.head_dim, last = s_.rows * s_.hidden;
    if (s_.keep.by_products && s_.gated && s_.fusion.gate_apart && last > keys) hold(s_.dtypes.compute, last - keys);
  }

  void save_experts() {
    const MoeDims d = s_.moe_dims();
    moe.logits = keep(s_.keep.routed, d.tokens * d.experts, s_.numerics.router);
    moe.probs = keep(s_.keep.routed, d.tokens * d.experts, s_.numerics.router);
    // Rows that are weighed on their way are dispatched again by weight passes.
    moe.weights = keep_for(s_.weigh_inputs, s_.keep.routed, d.tokens * d.top_k, s_.numerics.router);
    const bool shares = s_.row_shares() > 1;
    moe.slots = keep_inputs(DType::int32, d.tokens * d.top_k);
    save_counts(d, shares);
    if (s_.gathers_tokens()) {
      const MoeDims all = s_.dispatch_dims();
      moe.placed = keep_inputs(DType::int32, all.tokens * all.top_k);
      moe.all_weights = keep_for(s_.weigh_inputs, s_.keep.routed, all.tokens * all.top_k, s_.numerics.router);
    }
    if (s_.token_shares() > 1 && s_.aux_loss > 0) moe.load = keep_inputs(DType::int32, d.experts);
    save_expert_rows(d);
    const bool weighs_returned = !s_.weigh_inputs && !s_.fusion.weighted_activations;
    moe.returned = keep(s_.keep.routed && weighs_returned, s_.dispatch_dims().rows() * d.hidden);
    if (s_.branch_norms) save_branches();
    moe.gate = keep(s_.shared_gate, s_.rows);
    moe.shared = keep(s_.shared_gate, s_.rows * s_.hidden);
    fc1 = keep_activation_input(s_.keep.shared_fc1 && s_.shared_ffn > 0, s_.keep.shared_activated, s_.tokens * s_.shared_fc1);
    activated = keep_operand(s_.keep.shared_activated && s_.shared_ffn > 0 && reads_input("fc2"), s_.tokens * s_.shared_ffn);
    save_sum();
  }

  void save_counts(const MoeDims& d, bool shares) {
    const Going host_reads = staying();
    moe.counts = keep_inputs(DType::int32, d.experts);
    if (s_.unequal_rows() && !(s_.gathers_tokens() && shares)) moe.arrived = keep_inputs(DType::int32, d.experts);
    if (shares && d.capacity == 0) moe.gathered = keep_inputs(DType::int32, s_.row_shares() * d.experts);
  }

  void save_expert_rows(const MoeDims& d) {
    const std::int64_t wide = s_.expert_rows() * s_.expert_ffn;
    {
      const Going first_reads = going(s_.on_host.dispatched);
      moe.dispatched = keep_operand(s_.keep.dispatched && reads_input("experts.fc1"), s_.expert_rows() * d.hidden);
    }
    {
      const Going activation_reads = going(s_.on_host.expert_fc1);
      moe.fc1 = keep_activation_input(s_.keep.expert_fc1, s_.keep.expert_activated, s_.expert_rows() * s_.expert_fc1);
    }
    const Going second_reads = going(s_.on_host.expert_activated);
    if (unweighted() > 0 && s_.keep.expert_activated) hold(s_.dtypes.compute, unweighted() * wide);
    moe.activated = keep_operand(s_.keep.expert_activated && reads_input("experts.fc2"), wide);
  }

  /// Tensors of an activation that autograd keeps where weights follow it: none where one kernel does both, which reads the
  /// activation's input (NVIDIA/Megatron-LM: core/fusions, weighted_bias_swiglu_impl, weighted_bias_quick_geglu_impl); else what the
  /// weights multiply, and of a gate what its product does.
  std::int64_t unweighted() const {
    if (!s_.fusion.weighted_activations) return 0;
    if (!s_.gated) return 1;
    return s_.gate == GateKind::gelu_tanh ? 2 : 0;
  }

  void save_branches() {
    const std::int64_t state = s_.rows * s_.hidden;
    const bool kept = s_.keep.norms;
    const auto input = [&](Kept& n, Kept& stats) {
      stats = keep_for(!kept, true, 2 * s_.rows, s_.numerics.statistics);
      norm_copy(kept);
      n = keep_inputs(kept, state);
    };
    input(moe.n, moe.n_stats);
    if (s_.router_norm) input(moe.router_n, moe.router_stats);
    moe.experts_out = keep(true, state);
    moe.experts_stats = keep(true, 2 * s_.rows, s_.numerics.statistics);
    moe.shared_out = keep(true, state);
    moe.shared_stats = keep(true, 2 * s_.rows, s_.numerics.statistics);
  }

  /// The input of a norm after the addition.
  void save_sum() {
    sum2 = keep(s_.placement != NormPlacement::pre, s_.rows * s_.hidden);
    mlp_out = keep(s_.sandwich, s_.rows * s_.hidden);
    mlp_out_stats = keep(s_.sandwich, 2 * s_.rows, s_.numerics.statistics);
  }

  SlotLayout at_, host_, later_;
  const Shapes& s_;
  bool has_saved_, has_offloaded_, goes_, written_;
};

}  // namespace tandem::lowering
