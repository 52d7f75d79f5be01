#pragma once
// The fields of every operation by name, for code that writes, reads or compares operations of any kind.
// Total: an alternative of Op without an overload does not compile.

#include <array>
#include <utility>
#include <variant>

#include "models/ops/op.hpp"

namespace tandem {

// clang-format off
template <class F> void fields(MatMul& o, F&& f) { f("m", o.m); f("n", o.n); f("k", o.k); f("trans_a", o.trans_a); f("trans_b", o.trans_b); f("bias", o.bias); f("accumulate", o.accumulate); f("total", o.total); f("sums", o.sums); f("activation", o.activation); }
template <class F> void fields(Dequantize& o, F&& f) { f("elements", o.elements); f("source", o.source); f("destination", o.destination); }
template <class F> void fields(BiasGrad& o, F&& f) { f("rows", o.rows); f("cols", o.cols); }
template <class F> void fields(LayerNorm& o, F&& f) { f("rows", o.rows); f("cols", o.cols); f("epsilon", o.epsilon); f("rms", o.rms); f("plain", o.plain); }
template <class F> void fields(LayerNormBackward& o, F&& f) { f("rows", o.rows); f("cols", o.cols); f("add_residual", o.add_residual); f("rms", o.rms); f("part", o.part); f("plain", o.plain); }
template <class F> void fields(Pointwise& o, F&& f) { f("elements", o.elements); f("kind", o.kind); f("bias_cols", o.bias_cols); }
template <class F> void fields(PointwiseBackward& o, F&& f) { f("elements", o.elements); f("kind", o.kind); f("bias_cols", o.bias_cols); }
template <class F> void fields(GatedPointwise& o, F&& f) { f("rows", o.rows); f("cols", o.cols); f("kind", o.kind); f("part", o.part); }
template <class F> void fields(GatedPointwiseBackward& o, F&& f) { f("rows", o.rows); f("cols", o.cols); f("kind", o.kind); f("part", o.part); }
template <class F> void fields(SoftCap& o, F&& f) { f("elements", o.elements); f("cap", o.cap); }
template <class F> void fields(SoftCapBackward& o, F&& f) { f("elements", o.elements); f("cap", o.cap); }
template <class F> void fields(RowGate& o, F&& f) { f("rows", o.rows); f("cols", o.cols); }
template <class F> void fields(RowGateBackward& o, F&& f) { f("rows", o.rows); f("cols", o.cols); }
template <class F> void fields(Elementwise& o, F&& f) { f("rows", o.rows); f("cols", o.cols); f("kind", o.kind); f("other", o.other); f("factor", o.factor); }
template <class F> void fields(RowReduce& o, F&& f) { f("rows", o.rows); f("cols", o.cols); f("kind", o.kind); f("epsilon", o.epsilon); }
template <class F> void fields(AttentionDims& o, F&& f) { f("batch", o.batch); f("heads", o.heads); f("seq", o.seq); f("head_dim", o.head_dim); f("kv_heads", o.kv_heads); f("keys", o.keys); f("causal", o.causal); f("window", o.window); f("chunked", o.chunked); f("block", o.block); f("value_dim", o.value_dim); f("q_packed", o.q_packed); f("kv_packed", o.kv_packed); f("share", o.share); f("row_shards", o.row_shards); f("head_ranks", o.head_ranks); f("score_scale", o.score_scale); }
template <class F> void fields(AttentionScores& o, F&& f) { fields(o.dims, f); f("scaled", o.scaled); }
template <class F> void fields(AttentionSoftmax& o, F&& f) { fields(o.dims, f); f("dropout", o.dropout); f("alibi", o.alibi); f("relative_buckets", o.relative_buckets); f("site", o.site); f("part", o.part); }
template <class F> void fields(AttentionContext& o, F&& f) { fields(o.dims, f); }
template <class F> void fields(AttentionContextBackward& o, F&& f) { fields(o.dims, f); }
template <class F> void fields(AttentionSoftmaxBackward& o, F&& f) { fields(o.dims, f); f("dropout", o.dropout); f("relative_buckets", o.relative_buckets); f("site", o.site); f("part", o.part); }
template <class F> void fields(AttentionScoresBackward& o, F&& f) { fields(o.dims, f); f("scaled", o.scaled); }
template <class F> void fields(FlashAttention& o, F&& f) { fields(o.dims, f); f("dropout", o.dropout); f("alibi", o.alibi); f("ring_step", o.ring_step); f("site", o.site); f("kernel", o.kernel); f("deterministic", o.deterministic); f("sinks", o.sinks); f("soft_cap", o.soft_cap); f("chosen", o.chosen); }
template <class F> void fields(FlashAttentionBackward& o, F&& f) { fields(o.dims, f); f("dropout", o.dropout); f("alibi", o.alibi); f("ring_step", o.ring_step); f("site", o.site); f("kernel", o.kernel); f("deterministic", o.deterministic); f("sinks", o.sinks); f("soft_cap", o.soft_cap); f("chosen", o.chosen); }
template <class F> void fields(SplitKv& o, F&& f) { f("rows", o.rows); fields(o.dims, f); }
template <class F> void fields(MergeKv& o, F&& f) { f("rows", o.rows); fields(o.dims, f); }
template <class F> void fields(ColumnParts& o, F&& f) { f("rows", o.rows); f("cols", o.cols); f("parts", o.parts); f("repeat", o.repeat); f("common", o.common); f("common_first", o.common_first); }
template <class F> void fields(ColumnSlice& o, F&& f) { f("rows", o.rows); f("cols", o.cols); f("first", o.first); f("width", o.width); }
template <class F> void fields(OrderRows& o, F&& f) { f("batch", o.batch); f("seq", o.seq); f("cols", o.cols); f("shards", o.shards); f("inverse", o.inverse); }
template <class F> void fields(HeadNorm& o, F&& f) { fields(o.dims, f); f("epsilon", o.epsilon); f("plain", o.plain); f("values", o.values); }
template <class F> void fields(HeadNormBackward& o, F&& f) { fields(o.dims, f); f("epsilon", o.epsilon); f("plain", o.plain); f("values", o.values); }
template <class F> void fields(RowNormSums& o, F&& f) { fields(o.dims, f); }
template <class F> void fields(RowNorm& o, F&& f) { fields(o.dims, f); f("ranks", o.ranks); f("epsilon", o.epsilon); }
template <class F> void fields(RowNormDots& o, F&& f) { fields(o.dims, f); }
template <class F> void fields(RowNormBackward& o, F&& f) { fields(o.dims, f); f("ranks", o.ranks); f("epsilon", o.epsilon); }
template <class F> void fields(LatentNorm& o, F&& f) { f("rows", o.rows); f("cols", o.cols); f("rest", o.rest); f("epsilon", o.epsilon); }
template <class F> void fields(LatentNormBackward& o, F&& f) { f("rows", o.rows); f("cols", o.cols); f("rest", o.rest); }
template <class F> void fields(LatentHeads& o, F&& f) { fields(o.dims, f); f("turned", o.turned); f("query_scale", o.query_scale); }
template <class F> void fields(LatentHeadsBackward& o, F&& f) { fields(o.dims, f); f("turned", o.turned); f("query_scale", o.query_scale); }
template <class F> void fields(IndexDims& o, F&& f) { f("batch", o.batch); f("heads", o.heads); f("seq", o.seq); f("head_dim", o.head_dim); f("top_k", o.topk); f("keys", o.keys); f("block", o.block); }
template <class F> void fields(IndexTopK& o, F&& f) { fields(o.dims, f); }
template <class F> void fields(IndexTarget& o, F&& f) { fields(o.dims, f); }
template <class F> void fields(IndexTopKBackward& o, F&& f) { fields(o.dims, f); f("global_queries", o.global_queries); }
template <class F> void fields(RecurrenceDims& o, F&& f) { f("rule", o.rule); f("batch", o.batch); f("heads", o.heads); f("seq", o.seq); f("key_heads", o.key_heads); f("key_dim", o.key_dim); f("value_dim", o.value_dim); }
template <class F> void fields(ShortConv& o, F&& f) { fields(o.dims, f); f("taps", o.taps); f("bias", o.bias); }
template <class F> void fields(ShortConvBackward& o, F&& f) { fields(o.dims, f); f("taps", o.taps); f("bias", o.bias); }
template <class F> void fields(Recurrence& o, F&& f) { fields(o.dims, f); }
template <class F> void fields(RecurrenceBackward& o, F&& f) { fields(o.dims, f); }
template <class F> void fields(GatedNorm& o, F&& f) { f("rows", o.rows); f("parts", o.parts); f("cols", o.cols); f("same_weights", o.same_weights); f("epsilon", o.epsilon); f("gate_first", o.gate_first); }
template <class F> void fields(GatedNormBackward& o, F&& f) { f("rows", o.rows); f("parts", o.parts); f("cols", o.cols); f("same_weights", o.same_weights); f("gate_first", o.gate_first); }
template <class F> void fields(SigmoidGate& o, F&& f) { f("elements", o.elements); }
template <class F> void fields(SigmoidGateBackward& o, F&& f) { f("elements", o.elements); }
template <class F> void fields(IndexBlocks& o, F&& f) { fields(o.dims, f); }
template <class F> void fields(IndexBlocksBackward& o, F&& f) { fields(o.attention, f); f("index_heads", o.index_heads); f("index_dim", o.index_dim); }
template <class F> void fields(Rotary& o, F&& f) { fields(o.dims, f); f("theta", o.theta); f("inverse", o.inverse); f("scaling", o.scaling); f("factor", o.factor); f("part", o.part); f("turned", o.heads); f("original", o.original); f("dimensions", o.turned); f("keeps_length", o.keeps_length); f("fast", o.fast); f("slow", o.slow); f("fractional", o.fractional); }
template <class F> void fields(BiasDropoutAdd& o, F&& f) { f("rows", o.rows); f("cols", o.cols); f("dropout", o.dropout); f("bias", o.bias); f("site", o.site); f("shard", o.shard); f("residual", o.residual); }
template <class F> void fields(BiasDropoutAddBackward& o, F&& f) { f("rows", o.rows); f("cols", o.cols); f("dropout", o.dropout); f("bias", o.bias); f("site", o.site); f("shard", o.shard); }
template <class F> void fields(BiasDropoutAddNorm& o, F&& f) { f("rows", o.rows); f("cols", o.cols); f("dropout", o.dropout); f("bias", o.bias); f("site", o.site); f("shard", o.shard); f("epsilon", o.epsilon); f("rms", o.rms); f("plain", o.plain); }
template <class F> void fields(Embedding& o, F&& f) { f("tokens", o.tokens); f("hidden", o.hidden); f("vocab_rows", o.vocab_rows); f("whole", o.whole); f("add", o.add); }
template <class F> void fields(EmbeddingBackward& o, F&& f) { f("tokens", o.tokens); f("hidden", o.hidden); f("vocab_rows", o.vocab_rows); f("whole", o.whole); }
template <class F> void fields(PositionDropout& o, F&& f) { f("batch", o.batch); f("seq", o.seq); f("hidden", o.hidden); f("dropout", o.dropout); f("learned", o.learned); f("shard", o.shard); f("rows", o.rows); }
template <class F> void fields(PositionDropoutBackward& o, F&& f) { f("batch", o.batch); f("seq", o.seq); f("hidden", o.hidden); f("max_positions", o.max_positions); f("dropout", o.dropout); f("learned", o.learned); f("shard", o.shard); f("rows", o.rows); }
template <class F> void fields(TakeFirst& o, F&& f) { f("batch", o.batch); f("seq", o.seq); f("hidden", o.hidden); }
template <class F> void fields(TakeFirstBackward& o, F&& f) { f("batch", o.batch); f("seq", o.seq); f("hidden", o.hidden); }
template <class F> void fields(VocabDims& o, F&& f) { f("rows", o.rows); f("cols", o.cols); f("vocab_size", o.vocab_size); f("whole", o.whole); }
template <class F> void fields(VocabMax& o, F&& f) { fields(o.dims, f); }
template <class F> void fields(VocabExpSum& o, F&& f) { fields(o.dims, f); }
template <class F> void fields(CrossEntropy& o, F&& f) { fields(o.dims, f); f("global_tokens", o.global_tokens); f("first", o.first); f("one_kernel", o.one_kernel); }
template <class F> void fields(Accumulate& o, F&& f) { f("elements", o.elements); f("source", o.source); f("destination", o.destination); f("overwrite", o.overwrite); }
template <class F> void fields(Fill& o, F&& f) { f("elements", o.elements); f("dtype", o.dtype); f("nan", o.nan); }
template <class F> void fields(MoeDims& o, F&& f) { f("tokens", o.tokens); f("hidden", o.hidden); f("experts", o.experts); f("top_k", o.top_k); f("capacity", o.capacity); f("room", o.room); f("experts_here", o.here); }
template <class F> void fields(RouterRule& o, F&& f) { f("scores", o.scores); f("normalize", o.normalize); f("weight_scale", o.scale); f("expert_groups", o.groups); f("kept_groups", o.kept_groups); f("group_score", o.group_score); f("choice_bias", o.bias); f("expert_scale", o.expert_scale); }
template <class F> void fields(TopKRouter& o, F&& f) { fields(o.dims, f); fields(o.routing, f); }
template <class F> void fields(TopKRouterBackward& o, F&& f) { fields(o.dims, f); f("aux_loss", o.aux_loss); f("micro_batches", o.micro_batches); fields(o.routing, f); }
template <class F> void fields(BalanceGrad& o, F&& f) { fields(o.dims, f); f("micro_batches", o.micro_batches); }
template <class F> void fields(ExpertSlots& o, F&& f) { fields(o.dims, f); f("members", o.members); }
template <class F> void fields(MoeDispatch& o, F&& f) { fields(o.dims, f); f("weighted_inputs", o.weighted); }
template <class F> void fields(MoeDispatchBackward& o, F&& f) { fields(o.dims, f); f("weighted_inputs", o.weighted); }
template <class F> void fields(MoeCombine& o, F&& f) { fields(o.dims, f); f("weighted", o.weighted); }
template <class F> void fields(MoeCombineBackward& o, F&& f) { fields(o.dims, f); f("weighted", o.weighted); }
template <class F> void fields(GroupedMatMul& o, F&& f) { f("groups", o.groups); f("experts", o.experts); f("m", o.m); f("n", o.n); f("k", o.k); f("trans_b", o.trans_b); f("ragged", o.ragged); }
template <class F> void fields(GroupedBias& o, F&& f) { f("groups", o.groups); f("experts", o.experts); f("m", o.m); f("n", o.n); f("once", o.once); f("ragged", o.ragged); f("weighted_bias", o.weighted); }
template <class F> void fields(GroupedBiasGrad& o, F&& f) { f("groups", o.groups); f("experts", o.experts); f("m", o.m); f("n", o.n); f("ragged", o.ragged); f("weighted_bias", o.weighted); }
template <class F> void fields(GroupedWeightGrad& o, F&& f) { f("groups", o.groups); f("experts", o.experts); f("m", o.m); f("n", o.n); f("k", o.k); f("ragged", o.ragged); f("accumulate", o.accumulate); f("total", o.total); }
template <class F> void fields(GradNorm& o, F&& f) { f("elements", o.elements); f("gradients", o.gradients); }
template <class F> void fields(ClipCoefficient& o, F&& f) { f("clip_grad", o.clip_grad); }
template <class F> void fields(AdamW& o, F&& f) { f("elements", o.elements); f("beta1", o.beta1); f("beta2", o.beta2); f("epsilon", o.epsilon); f("weight_decay", o.weight_decay); f("master", o.master); f("gradients", o.gradients); f("weights", o.weights); f("state", o.state); }
template <class F> void fields(Sgd& o, F&& f) { f("elements", o.elements); f("momentum", o.momentum); f("weight_decay", o.weight_decay); f("master", o.master); f("gradients", o.gradients); f("weights", o.weights); f("state", o.state); }
template <class F> void fields(Muon& o, F&& f) { f("matrices", o.matrices); f("rows", o.rows); f("cols", o.cols); f("whole_rows", o.whole_rows); f("whole_cols", o.whole_cols); f("steps", o.steps); f("momentum", o.momentum); f("nesterov", o.nesterov); f("scale", o.scale); f("weight_decay", o.weight_decay); f("master", o.master); f("gradients", o.gradients); f("weights", o.weights); f("state", o.state); f("iteration", o.iteration); }
template <class F> void fields(TensorNorms& o, F&& f) { f("elements", o.elements); f("global_parameters", o.global_parameters); f("gradients", o.gradients); }
template <class F> void fields(LayerwiseMoments& o, F&& f) { f("kind", o.kind); f("elements", o.elements); f("global_parameters", o.global_parameters); f("beta1", o.beta1); f("beta2", o.beta2); f("epsilon", o.epsilon); f("weight_decay", o.weight_decay); f("master", o.master); f("gradients", o.gradients); f("weights", o.weights); f("state", o.state); }
template <class F> void fields(LayerwiseApply& o, F&& f) { f("kind", o.kind); f("elements", o.elements); f("global_parameters", o.global_parameters); f("beta1", o.beta1); f("beta2", o.beta2); f("epsilon", o.epsilon); f("weight_decay", o.weight_decay); f("master", o.master); f("gradients", o.gradients); f("weights", o.weights); f("state", o.state); }
template <class F> void fields(Collective& o, F&& f) { f("kind", o.kind); f("group", o.group); f("elements", o.elements); f("dtype", o.dtype); f("reduce", o.reduce); f("chunked", o.chunked); }
template <class F> void fields(Send& o, F&& f) { f("elements", o.elements); f("dtype", o.dtype); f("stage_offset", o.stage_offset); }
template <class F> void fields(Recv& o, F&& f) { f("elements", o.elements); f("dtype", o.dtype); f("stage_offset", o.stage_offset); }
template <class F> void fields(HostCopy& o, F&& f) { f("elements", o.elements); f("dtype", o.dtype); f("to_host", o.to_host); }
// clang-format on

/// Calls `f(name, field&)` for every field of `op`, in declaration order. Fields are integers, bools, doubles and enums.
template <class F>
void visit_fields(Op& op, F&& f) {
  std::visit([&](auto& o) { fields(o, f); }, op);
}

namespace detail {
template <std::size_t... I>
constexpr auto op_makers(std::index_sequence<I...>) {
  return std::array<Op (*)(), sizeof...(I)>{+[] { return Op(std::variant_alternative_t<I, Op>{}); }...};
}
}  // namespace detail

/// Returns an empty operation of the kind with this variant index.
inline Op empty_op(std::size_t index) { return detail::op_makers(std::make_index_sequence<kOpKinds>{}).at(index)(); }

}  // namespace tandem
