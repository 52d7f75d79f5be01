// FLOPs of every operation: exact for matrix products, approximate for the others.

#include "models/ops/op.hpp"

namespace tandem {
namespace {

using Count = std::int64_t;

/// Returns 0 for operations that a visitor does not count.
template <class T>
struct Free {
  Count operator()(const T&) const { return 0; }
};
template <class... T>
struct FreeOf : Free<T>... {
  using Free<T>::operator()...;
};

Count score_elements(const AttentionDims& d) { return d.batch * d.heads * d.seq * d.key_count(); }
/// FLOPs of one batched product over the full score matrix: 2 seq keys head_dim for every head of every sequence, or as many times
/// the width of a value.
Count score_product(const AttentionDims& d) { return 2 * score_elements(d) * d.head_dim; }
Count value_product(const AttentionDims& d) { return 2 * score_elements(d) * d.value_width(); }

/// (query, key) pairs of one head of one sequence. Of a causal ring the first step has a rank's own keys: a triangle. Later
/// ones have either the first half of its keys for every query, or all of its keys for the second half of the queries.
Count pairs(const AttentionDims& d, int ring_step) {
  if (!d.causal) return d.seq * d.key_count();
  return ring_step > 0 ? d.seq * d.key_count() / 2 : d.seq * (d.key_count() + 1) / 2;
}
/// `each` for every pair that is needed. With a window and queries that context ranks share: a rank's even share of them; its own
/// ones are fewer or more, as it has the first positions, which see fewer keys, or not.
Count over_pairs(const AttentionDims& d, int ring_step, Count each) {
  const Count all = each * d.batch * d.heads;
  if (!d.causal || d.window == 0) return all * pairs(d, ring_step);
  const Count n = d.key_count();
  const Count seen = d.block > 0 ? pairs_in_blocks(n, d.window, d.block) : pairs_seen(n, d.window, d.chunked);
  return share_of(all * seen, d.seq, n);
}
/// FLOPs of so many products with queries or keys, and with values, over the pairs that are needed.
Count pair_products(const AttentionDims& d, int ring_step, Count with_keys, Count with_values) {
  return over_pairs(d, ring_step, 2 * (with_keys * d.head_dim + with_values * d.value_width()));
}
/// A few FLOPs per pair: bias, mask, exponential, sum.
constexpr Count kSiluWork = 5;   // an exponential, a sum, a quotient and a product
constexpr Count kDecayWork = 12;  // a difference, an exponential and a product
constexpr Count kCapWork = 14;  // soft cap: a tanh and two products
Count pair_work(const auto& o) {
  return over_pairs(o.dims, o.ring_step, (o.dropout > 0 ? 12 : 8) + (o.soft_cap > 0 ? kCapWork : 0));
}

Count activation_flops(PointwiseKind kind) {
  return kind == PointwiseKind::gelu_tanh || kind == PointwiseKind::tanh ? 12 : 2;
}
Count derivative_flops(PointwiseKind kind) {
  return kind == PointwiseKind::gelu_tanh || kind == PointwiseKind::tanh ? 20 : 3;
}
Count work_beside(const MatMul& o) {
  switch (o.activation) {
    case ProductActivation::none: return 0;
    case ProductActivation::gelu: return activation_flops(PointwiseKind::gelu_tanh) * o.m * o.n;
    case ProductActivation::gelu_gradient: return derivative_flops(PointwiseKind::gelu_tanh) * o.m * o.n;
  }
  return 0;
}
/// Both gradients of a norm take 14 FLOPs per element: 5 for the parameters' and 9 for the input's.
Count norm_gradient_work(NormPart part) {
  switch (part) {
    case NormPart::whole: return 14;
    case NormPart::input: return 9;
    case NormPart::parameters: return 5;
  }
  return 0;
}
/// A gated activation's product is one or two operations an element, the rest is its function's.
Count gate_work(GatePart part, Count whole) {
  switch (part) {
    case GatePart::whole: return whole;
    case GatePart::activation: return whole - 2;
    case GatePart::product: return 2;
  }
  return 0;
}
Count softmax_work(SoftmaxPart part, Count whole) {
  switch (part) {
    case SoftmaxPart::whole: return whole;
    case SoftmaxPart::mask: return 2;
    case SoftmaxPart::softmax: return 5;
    case SoftmaxPart::dropout: return 4;
  }
  return 0;
}
Count position_rows(const auto& o) { return o.rows > 0 ? o.rows : o.batch * o.seq; }
Count logits(const VocabDims& d) { return d.rows * d.cols; }
Count choices(const MoeDims& d) { return d.tokens * d.top_k; }
/// Cost of moving one element by gather or scatter_add, in FLOPs at the device's vector rate. index_select moves 21e6 elements of 16
/// bits in 136 us on a card whose other copies reach 2.3 TB/s, so an H100 with 67 TFLOP/s (pytorch/pytorch issue 151612).
constexpr Count kElementMove = 430;
/// FLOPs of rows that are moved element by element, twice in one operation.
Count moves(const MoeDims& d) { return d.by_element ? 2 * kElementMove * d.used_rows() * d.hidden : 0; }
/// Choices that have a row on this rank.
Count placed(const MoeDims& d) { return d.room > 0 ? d.used_rows() : choices(d); }
/// FLOPs per router score: a sum with the bias, a comparison within its group and one with the kept groups.
Count key_work(const RouterRule& r) { return r.bias + 2 * r.grouped(); }
/// One Newton-Schulz iteration of an m x n matrix: X X^T, A A, and a product of [m, m] with X.
Count newton_schulz_step(Count m, Count n) { return 2 * m * m * (2 * n + m); }
/// Momentum, norm and update, and the sums with A and X in each iteration.
Count muon_work(const Muon& o) {
  const Count iteration = 3 * o.shorter() * o.shorter() + 2 * o.rows * o.cols;
  return 11 * o.elements() + o.matrices * o.steps * iteration;
}
Count scale_work(const MoeDims& d, const RouterRule& r) { return r.expert_scale ? d.tokens * d.top_k : 0; }

}  // namespace

Flops matrix_flops(const Op& op) {
  return Flops(std::visit(
      overloaded{[](const MatMul& o) { return 2 * o.m * o.n * o.k; },
                 [](const AttentionScores& o) { return score_product(o.dims); },
                 [](const AttentionContext& o) { return value_product(o.dims); },
                 [](const AttentionContextBackward& o) { return 2 * value_product(o.dims); },
                 [](const AttentionScoresBackward& o) { return 2 * score_product(o.dims); },
                 [](const FlashAttention& o) { return pair_products(o.dims, o.ring_step, 1, 1); },
                 [](const FlashAttentionBackward& o) { return pair_products(o.dims, o.ring_step, 3, 2); },
                 [](const IndexTopK& o) { return o.dims.over_pairs(2 * o.dims.heads * o.dims.head_dim); },
                 [](const IndexTarget& o) { return pair_products(o.dims, -1, 1, 0); },
                 [](const Recurrence& o) { return o.dims.chunked_flops(); },
                 [](const RecurrenceBackward& o) { return 3 * o.dims.chunked_flops(); },  // forward pass again, and two gradients
                 [](const IndexBlocks& o) { return o.dims.over_pairs(2 * o.dims.heads * o.dims.head_dim); },
                 [](const IndexBlocksBackward& o) {
                   return pair_products(o.attention, -1, 1, 0) + o.index().over_chosen(6 * o.index_heads * o.index_dim);
                 },
                 [](const IndexTopKBackward& o) { return o.dims.over_chosen(6 * o.dims.heads * o.dims.head_dim); },
                 [](const GroupedMatMul& o) { return 2 * o.rows() * o.n * o.k; },
                 [](const GroupedWeightGrad& o) { return 2 * o.rows() * o.n * o.k; },
                 [](const Muon& o) { return o.matrices * o.steps * newton_schulz_step(o.shorter(), o.longer()); },
                 FreeOf<Dequantize, BiasGrad, LayerNorm, LayerNormBackward, Pointwise, PointwiseBackward, GatedPointwise,
                        GatedPointwiseBackward, SoftCap, SoftCapBackward, RowGate, RowGateBackward, LatentNorm,
                        LatentNormBackward, Elementwise, RowReduce, AttentionSoftmax, AttentionSoftmaxBackward, SplitKv, MergeKv,
                        PackColumns, UnpackColumns, OrderRows, TakePart, PlacePart, TakeColumns, AddColumns, HeadNorm,
                        HeadNormBackward, RowNormSums, RowNorm, RowNormDots, RowNormBackward,
                        LatentHeads, LatentHeadsBackward, ShortConv, ShortConvBackward, GatedNorm, GatedNormBackward, SigmoidGate,
                        SigmoidGateBackward, Rotary, BiasDropoutAdd, BiasDropoutAddBackward, BiasDropoutAddNorm,
                        Embedding, EmbeddingBackward, PositionDropout, PositionDropoutBackward, TakeFirst, TakeFirstBackward,
                        VocabMax, VocabExpSum, CrossEntropy, Accumulate, Fill, TopKRouter, TopKRouterBackward, BalanceGrad,
                        ExpertSlots, MoeDispatch, MoeDispatchBackward, MoeCombine, MoeCombineBackward, GroupedBias,
                        GroupedBiasGrad, GradNorm,
                        ClipCoefficient, AdamW, Sgd, TensorNorms, LayerwiseMoments, LayerwiseApply, Collective, Send, Recv,
                        HostCopy>{}},
      op));
}

Flops vector_flops(const Op& op) {
  return Flops(std::visit(
      overloaded{
          [](const MatMul& o) { return (o.bias + o.accumulate) * o.m * o.n + (o.sums ? o.m * o.k : 0) + work_beside(o); },
          [](const Dequantize& o) { return 2 * o.elements; },  // a code's number, times the scale
          [](const BiasGrad& o) { return o.rows * o.cols; },
          [](const LayerNorm& o) { return 8 * o.rows * o.cols; },
          [](const LayerNormBackward& o) { return norm_gradient_work(o.part) * o.rows * o.cols; },
          [](const Pointwise& o) { return (activation_flops(o.kind) + (o.bias_cols > 0)) * o.elements; },
          [](const PointwiseBackward& o) { return (derivative_flops(o.kind) + (o.bias_cols > 0)) * o.elements; },
          [](const GatedPointwise& o) { return gate_work(o.part, 13) * o.rows * o.cols; },
          [](const GatedPointwiseBackward& o) { return gate_work(o.part, 22) * o.rows * o.cols; },
          [](const Elementwise& o) { return (1 + (o.factor != 1)) * o.rows * o.cols; },
          [](const RowReduce& o) { return o.rows * o.cols; },
          [](const LatentNorm& o) { return 8 * o.rows * o.cols; },
          [](const LatentNormBackward& o) { return 14 * o.rows * o.cols; },
          [](const HeadNorm& o) { return 4 * o.elements(); },
          [](const HeadNormBackward& o) { return 9 * o.elements(); },
          [](const RowNormSums& o) { return 2 * o.elements(); },
          [](const RowNorm& o) { return 2 * o.elements(); },
          [](const RowNormDots& o) { return 3 * o.elements(); },
          [](const RowNormBackward& o) { return 7 * o.elements(); },
          [](const SoftCap& o) { return kCapWork * o.elements; },
          [](const SoftCapBackward& o) { return 4 * o.elements; },
          [](const RowGate& o) { return o.rows * o.cols; },
          [](const RowGateBackward& o) { return 3 * o.rows * o.cols; },
          [](const LatentHeads& o) { return o.query_scale != 1 ? o.rows() * o.dims.q_width() : 0; },
          [](const LatentHeadsBackward& o) {
            return o.rows() * (o.dims.heads * o.turned + (o.query_scale != 1 ? o.dims.q_width() : 0));
          },
          // A head's score takes a comparison with 0, a product with its weight and a sum; a key's a comparison with the list.
          [](const IndexTopK& o) { return o.dims.over_pairs(3 * o.dims.heads + 1); },
          [](const IndexTarget& o) { return over_pairs(o.dims, -1, 4); },
          [](const ShortConv& o) { return (2 * o.taps + kSiluWork) * o.dims.rows() * o.dims.mixed(); },
          [](const ShortConvBackward& o) { return (6 * o.taps + 2 * kSiluWork) * o.dims.rows() * o.dims.mixed(); },
          // Each pair of a chunk takes a difference of decays, its exponential and a product.
          [](const Recurrence& o) { return kDecayWork * o.dims.rows() * o.dims.heads * o.dims.chunk(); },
          [](const RecurrenceBackward& o) { return 3 * kDecayWork * o.dims.rows() * o.dims.heads * o.dims.chunk(); },
          [](const GatedNorm& o) { return (5 + kSiluWork) * o.rows * o.parts * o.cols; },
          [](const GatedNormBackward& o) { return (14 + 2 * kSiluWork) * o.rows * o.parts * o.cols; },
          [](const SigmoidGate& o) { return kSiluWork * o.elements; },
          [](const SigmoidGateBackward& o) { return (3 + kSiluWork) * o.elements; },
          // A comparison for every pair, and an exponential and a sum for every chosen one.
          [](const IndexBlocks& o) { return o.dims.over_pairs(o.dims.heads) + o.dims.over_chosen(4 * o.dims.heads); },
          [](const IndexBlocksBackward& o) {
            return over_pairs(o.attention, -1, 4) + o.index().over_chosen(5 * o.index_heads);
          },
          [](const IndexTopKBackward& o) { return o.dims.over_chosen(7 * o.dims.heads + 5); },
          [](const Rotary& o) { return (o.part == RotaryPart::whole ? 3 : 1) * o.elements(); },
          [](const AttentionSoftmax& o) { return softmax_work(o.part, o.dropout > 0 ? 12 : 8) * score_elements(o.dims); },
          [](const AttentionSoftmaxBackward& o) { return softmax_work(o.part, o.dropout > 0 ? 8 : 5) * score_elements(o.dims); },
          [](const FlashAttention& o) { return pair_work(o); },
          [](const FlashAttentionBackward& o) { return pair_work(o); },
          [](const BiasDropoutAdd& o) { return 5 * o.rows * o.cols; },
          [](const BiasDropoutAddBackward& o) { return 4 * o.rows * o.cols; },
          [](const BiasDropoutAddNorm& o) { return 13 * o.rows * o.cols; },
          [](const Embedding& o) { return o.add ? o.tokens * o.hidden : 0; },
          [](const EmbeddingBackward& o) { return o.tokens * o.hidden; },
          [](const PositionDropout& o) { return 4 * position_rows(o) * o.hidden; },
          [](const PositionDropoutBackward& o) { return 4 * position_rows(o) * o.hidden; },
          [](const TakeFirstBackward& o) { return o.batch * o.hidden; },
          [](const VocabMax& o) { return logits(o.dims); },
          [](const VocabExpSum& o) { return 6 * logits(o.dims); },
          [](const CrossEntropy& o) { return (o.one_kernel ? 15 : 8) * logits(o.dims); },
          [](const AddColumns& o) { return o.elements(); },
          [](const Accumulate& o) { return o.overwrite ? 0 : o.elements; },
          [](const TopKRouter& o) {
            return (6 + o.dims.top_k + key_work(o.routing)) * o.dims.tokens * o.dims.experts + scale_work(o.dims, o.routing);
          },
          [](const TopKRouterBackward& o) {
            const std::int64_t of_logits = o.z_loss > 0 ? 7 : 0;  // largest, exponentials and their sum, twice; product, sum
            return (5 + of_logits + o.dims.top_k + key_work(o.routing)) * o.dims.tokens * o.dims.experts +
                   3 * scale_work(o.dims, o.routing);
          },
          [](const BalanceGrad& o) { return 3 * o.dims.experts; },
          [](const ExpertSlots& o) { return o.members * choices(o.dims); },
          [](const MoeDispatch& o) { return (o.weighted ? placed(o.dims) * o.dims.hidden : 0) + moves(o.dims); },
          [](const MoeDispatchBackward& o) { return (o.weighted ? 4 : 1) * placed(o.dims) * o.dims.hidden + moves(o.dims); },
          [](const MoeCombine& o) { return (o.weighted ? 2 : 1) * placed(o.dims) * o.dims.hidden + moves(o.dims); },
          [](const MoeCombineBackward& o) { return (o.weighted ? 3 * placed(o.dims) * o.dims.hidden : 0) + moves(o.dims); },
          [](const GroupedWeightGrad& o) { return o.accumulate ? o.experts * o.n * o.k : 0; },
          [](const GroupedBias& o) { return o.rows() * o.n; },
          [](const GroupedBiasGrad& o) { return o.rows() * o.n; },
          [](const GradNorm& o) { return 2 * o.elements; },
          [](const ClipCoefficient&) { return kExactWords; },
          [](const AdamW& o) { return 16 * o.elements; },
          [](const Sgd& o) { return (o.momentum > 0 ? 7 : 5) * o.elements; },
          [](const Muon& o) { return muon_work(o); },
          [](const TensorNorms& o) { return 2 * o.elements; },
          [](const LayerwiseMoments& o) { return (18 + 2 * o.norms()) * o.elements; },
          [](const LayerwiseApply& o) { return 12 * o.norms() * o.elements / 2; },
          FreeOf<AttentionScores, AttentionContext, AttentionContextBackward, AttentionScoresBackward, SplitKv, MergeKv,
                 PackColumns, UnpackColumns, OrderRows, TakePart, PlacePart, TakeColumns, TakeFirst, Fill,
                 GroupedMatMul, Collective, Send, Recv, HostCopy>{}},
      op));
}

}  // namespace tandem
