// Attention between qkv and its output: with or without a score matrix, and over context-parallel ranks.

#include "models/lowering/templates/block_activations.hpp"
#include "models/lowering/templates/tensor_parallel.hpp"

namespace tandem::lowering {

void BlockActivations::rotate() {
  if (!s_.rotary) return;
  b_.add("rotary", s_.rotation(false), {t_.qkv}, {t_.qkv});
}

void BlockActivations::norm_heads() {
  if (!s_.norms_qk()) return;
  if (s_.keys_are_values) {
    b_.add("qk_norm", s_.head_norm(), {t_.unnormed, w_.block("q_norm.weight"), w_.block("k_norm.weight")}, {t_.qkv});
    return;
  }
  const Value before = start(t_.unnormed, s_.unnormed());
  const bool plain = s_.qk_norm == QkNorm::turned;
  std::vector<Value> in{t_.qkv};
  if (!plain) in.insert(in.end(), {w_.block("q_norm.weight"), w_.block("k_norm.weight")});
  if (s_.qk_norm != QkNorm::row) {
    b_.add("qk_norm", s_.head_norm(), std::move(in), {t_.qkv, before});
    return;
  }
  in.push_back(row_sums());
  b_.add("qk_norm", RowNorm{s_.attention_dims(), s_.tensor, s_.norm_epsilon}, std::move(in), {t_.qkv, before});
}

/// Sums of squares over all heads of all tensor ranks. They are stored, so recomputed heads need no new sums.
Value BlockActivations::row_sums() {
  if (t_.qk_sums.ready) return t_.qk_sums;
  const Value sums = start(t_.qk_sums, 2 * s_.tokens, s_.numerics.statistics);
  const auto task = b_.add("qk_sums", RowNormSums{s_.attention_dims()}, {t_.qkv}, {sums});
  b_.collectives_in_pieces(false);  // it follows no product
  tensor_all_reduce(b_, s_, sums, "qk_sums", task);
  b_.collectives_in_pieces(s_.tensor_overlap);
  return sums;
}

void BlockActivations::mix() {
  if (s_.kind.has_recurrence()) return recurrence();
  qkv();
  core();
}

/// One product computes the gate of attention's output together with queries, keys and values. Under Ulysses, what is exchanged
/// then takes the place of the latter.
void BlockActivations::gated_qkv(const Value& x) {
  const std::int64_t n = s_.tokens * s_.qkv(), gates = s_.tokens * s_.attention, room = core_qkv_elements(s_);
  Value whole = t_.gate;
  whole.elements += room;
  if (!t_.qkv.kept()) whole = b_.scratch(s_.dtypes.compute, gates + room);
  column("qkv", x, s_.input_columns(), whole.part(0, gates + n));
  t_.gate = {whole.part(0, gates), true};
  t_.qkv = {whole.part(gates, room), true};
}

Value BlockActivations::mixed() {
  if (!s_.attention_gate) return context();
  if (t_.gated.ready) return t_.gated;
  const Value x = context(), y = start(t_.gated, s_.tokens * s_.attention);
  b_.add("attention_gate", SigmoidGate{y.elements}, {x, t_.gate}, {y});
  return y;
}

void BlockActivations::qkv() {
  if (t_.qkv.ready) return;
  const bool exchanges = s_.exchanges_heads();
  const Value read = s_.latent.here() ? Value{} : input(1, state_);
  if (s_.attention_gate) gated_qkv(read);
  const std::int64_t n = s_.tokens * s_.qkv();
  const Value kept = start(t_.qkv, core_qkv_elements(s_));
  const Value y = !exchanges ? kept : s_.attention_gate ? kept.part(0, n) : b_.scratch(s_.dtypes.compute, n);
  // Values that equal keys are made when the keys are normed.
  const Value made = s_.keys_are_values ? start(t_.unnormed, s_.unnormed()) : y;
  if (s_.latent.here()) latent_heads(state_, y);
  else if (!s_.attention_gate) column("qkv", read, s_.qkv_made(), made);
  static_cast<Value&>(t_.qkv) = y;
  const bool behind = s_.qk_norm == QkNorm::turned;
  if (!behind) norm_heads();
  rotate();
  if (behind) norm_heads();
  if (!exchanges) return;
  // The stored tensor is the kernel's input: this rank's heads at the positions of all ranks that exchange.
  const Value packed = b_.scratch(s_.dtypes.compute, kept.elements);
  b_.add("qkv_pack", PackColumns{parts_of_qkv(s_)}, {y}, {packed});
  b_.add("qkv_all_to_all",
         Collective{CollectiveKind::all_to_all, s_.heads_group(), kept.elements, kept.dtype, Reduce::sum}, {packed}, {kept},
         Stream::tensor);
  static_cast<Value&>(t_.qkv) = kept;
}

namespace {

/// The context ranks that divide columns: all of them for a recurrence, whatever attention's do.
Group ranks_of(const ColumnParts& parts, const Shapes& s) { return parts.parts == s.context ? Group::context : s.heads_group(); }

}  // namespace

Value BlockActivations::by_heads(const Value& v, const ColumnParts& parts, const std::string& name) {
  const std::int64_t n = parts.parted();
  const Value packed = b_.scratch(v.dtype, n), out = b_.scratch(v.dtype, n);
  b_.add(name + "_pack", PackColumns{parts}, {v}, {packed});
  b_.add(name + "_all_to_all", Collective{CollectiveKind::all_to_all, ranks_of(parts, s_), n, v.dtype, Reduce::sum}, {packed}, {out},
         Stream::tensor);
  return out;
}

void BlockActivations::by_positions(const Value& v, const ColumnParts& parts, const std::string& name, const Value& to) {
  const Value back = b_.scratch(v.dtype, v.elements);
  b_.add(name + "_all_to_all", Collective{CollectiveKind::all_to_all, ranks_of(parts, s_), v.elements, v.dtype, Reduce::sum}, {v},
         {back}, Stream::tensor);
  b_.add(name + "_unpack", UnpackColumns{parts}, {back}, {to});
}

Value BlockActivations::own_kv() {
  if (own_kv_.elements > 0) return own_kv_;
  const AttentionDims d = exchanged_dims(s_);
  own_kv_ = b_.scratch(s_.dtypes.compute, d.batch * d.seq * d.kv_width());
  b_.add("split_kv", SplitKv{d.batch * d.seq, d}, {t_.qkv}, {own_kv_});
  return own_kv_;
}

Value BlockActivations::all_kv() {
  if (s_.path != ContextPath::all_gather) return t_.qkv;
  if (all_kv_.elements > 0) return all_kv_;
  const Value own = own_kv();
  all_kv_ = b_.scratch(own.dtype, own.elements * s_.key_ranks());
  b_.add("kv_all_gather",
         Collective{CollectiveKind::all_gather, s_.keys_group(), all_kv_.elements, own.dtype, Reduce::sum}, {own}, {all_kv_},
         Stream::tensor);
  return all_kv_;
}

void BlockActivations::core() {
  const bool exchanges = s_.exchanges_heads();
  const Value context = start(exchanges ? t_.core_context : t_.context, s_.tokens * s_.attention);
  need_core();
  if (!s_.flash) b_.add("context", AttentionContext{core_dims(s_)}, {t_.dropped, all_kv()}, {context});
  if (exchanges) by_positions(context, parts_of_context(s_), "context", start(t_.context, s_.tokens * s_.attention));
}

Value BlockActivations::context() {
  if (!t_.context.ready) need_core();
  return t_.context;
}

void BlockActivations::need_core() {
  if (s_.flash ? t_.attention_stats.ready : t_.probs.ready) return;
  qkv();
  if (!s_.flash) return score_core();
  // Recomputation writes the same output again.
  const bool exchanges = s_.exchanges_heads();
  const Value context = exchanges ? Value(t_.core_context) : start(t_.context, s_.tokens * s_.attention);
  if (!exchanges) static_cast<Value&>(t_.core_context) = context;
  s_.path == ContextPath::ring ? ring_core(context) : flash_core(context);
}

void BlockActivations::score_core() {
  const AttentionDims d = core_dims(s_);
  const std::int64_t n = score_elements(d);
  if (!t_.scores.ready) {
    start(t_.scores, n);
    b_.add("scores", AttentionScores{d}, {t_.qkv, all_kv()}, {t_.scores});
    if (s_.attention_soft_cap > 0) b_.add("score_cap", SoftCap{n, s_.attention_soft_cap}, {t_.scores}, {t_.scores});
  }
  start(t_.probs, n);
  std::vector<Value> out{t_.probs};
  if (s_.attention_dropout > 0) out.push_back(start(t_.dropped, n));
  else t_.dropped = t_.probs;
  std::vector<Value> in{t_.scores};
  if (s_.relative_buckets > 0) in.push_back(w_.relative(s_.relative_table()));
  b_.add("softmax", AttentionSoftmax{d, s_.attention_dropout, s_.alibi, s_.relative_buckets}, std::move(in), out);
}

void BlockActivations::flash_core(const Value& context) {
  const AttentionDims d = core_dims(s_);
  const bool chooses = s_.indexer.here();
  const Value keys = chooses ? chosen() : Value{};
  start(t_.attention_stats, stats_elements(d), s_.numerics.statistics);
  std::vector<Value> in{t_.qkv, all_kv()};
  if (s_.sinks) in.push_back(w_.block("sinks"));
  if (chooses) in.push_back(keys);
  b_.add("attention", FlashAttention{d, s_.attention_dropout, s_.alibi, -1, DropoutSite::attention, s_.flash_kernel(false),
                       s_.fusion.deterministic_attention, s_.sinks, s_.attention_soft_cap, chooses},
         std::move(in), {context, t_.attention_stats});
}

/// Ring attention (arXiv 2310.01889): keys and values travel round the ring. The next ones arrive while the kernel uses these.
void BlockActivations::ring_core(const Value& context) {
  const AttentionDims d = core_dims(s_);
  start(t_.attention_stats, stats_elements(d), s_.numerics.statistics);
  Value kv = own_kv();
  for (int step = 0; step < s_.key_ranks(); ++step) {
    const Value here = kv;
    const std::string n = std::to_string(step);
    if (step + 1 < s_.key_ranks()) {
      kv = b_.scratch(here.dtype, here.elements);
      b_.add("kv_shift" + n, Collective{CollectiveKind::shift, s_.keys_group(), here.elements, here.dtype, Reduce::sum}, {here},
             {kv}, Stream::tensor);
    }
    std::vector<Value> in{t_.qkv, here};
    const bool sinks = s_.sinks && step == 0;  // once
    if (step > 0) in.insert(in.end(), {context, t_.attention_stats});
    if (sinks) in.push_back(w_.block("sinks"));
    b_.add("attention" + n, FlashAttention{d, s_.attention_dropout, s_.alibi, step, DropoutSite::attention,
                         s_.flash_kernel(false), s_.fusion.deterministic_attention, sinks, s_.attention_soft_cap},
           std::move(in), {context, t_.attention_stats});
  }
}

}  // namespace tandem::lowering
