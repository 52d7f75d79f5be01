// Bytes an operation moves when each operand goes to or from device memory once.

#include "models/ops/op.hpp"

namespace tandem {
namespace {

/// Bytes of every kind of operand, for one compute type.
class TrafficOf {
 public:
  explicit TrafficOf(DType compute) : compute_(compute) {}

  Bytes operator()(const MatMul& o) const {
    const std::int64_t vectors = (o.bias ? o.n : 0) + (o.sums ? o.m : 0);
    const std::int64_t beside = o.activation == ProductActivation::none ? 0 : o.m * o.n;
    return e(o.m * o.k + o.k * o.n + (o.accumulate ? 0 : o.m * o.n) + beside + vectors) + added_to(o, o.m * o.n);
  }
  Bytes operator()(const Dequantize& o) const { return bytes_of(o.source, o.elements) + bytes_of(o.destination, o.elements); }
  Bytes operator()(const BiasGrad& o) const { return e(o.rows * o.cols + o.cols); }
  Bytes operator()(const LayerNorm& o) const { return e(2 * o.rows * o.cols + (o.has_beta() ? 2 : 1) * o.cols + 2 * o.rows); }
  Bytes operator()(const LayerNormBackward& o) const {
    const std::int64_t gamma = o.part == NormPart::parameters ? 0 : 1;
    const std::int64_t gradients = o.part == NormPart::input ? 0 : o.has_beta() ? 2 : 1;
    return e((2 + gamma + o.add_residual) * o.rows * o.cols + (gamma + gradients) * o.cols + 2 * o.rows);
  }
  Bytes operator()(const Pointwise& o) const { return e(2 * o.elements + o.bias_cols); }
  Bytes operator()(const PointwiseBackward& o) const { return e(3 * o.elements + o.bias_cols); }
  Bytes operator()(const GatedPointwise& o) const { return e((o.part == GatePart::activation ? 2 : 3) * o.rows * o.cols); }
  Bytes operator()(const GatedPointwiseBackward& o) const {
    switch (o.part) {
      case GatePart::whole: case GatePart::product: return e(5 * o.rows * o.cols);
      case GatePart::activation: return e(3 * o.rows * o.cols);
    }
    return Bytes(0);
  }
  Bytes operator()(const SoftCap& o) const { return e(2 * o.elements); }
  Bytes operator()(const SoftCapBackward& o) const { return e(3 * o.elements); }
  Bytes operator()(const RowGate& o) const { return e(2 * o.rows * o.cols + o.rows); }
  Bytes operator()(const RowGateBackward& o) const { return e(3 * o.rows * o.cols + 2 * o.rows); }
  Bytes operator()(const Elementwise& o) const { return e(2 * o.rows * o.cols + other(o)); }
  Bytes operator()(const RowReduce& o) const { return e(o.rows * o.cols + o.rows); }

  Bytes operator()(const AttentionScores& o) const { return e(scores(o.dims) + queries(o.dims) + keys(o.dims)); }
  Bytes operator()(const AttentionSoftmax& o) const {
    const std::int64_t both = o.part == SoftmaxPart::whole && o.dropout > 0 ? 3 : 2;
    return e(both * scores(o.dims) + o.dims.heads * o.relative_buckets);
  }
  Bytes operator()(const AttentionContext& o) const { return e(scores(o.dims) + contexts(o.dims) + values(o.dims)); }
  Bytes operator()(const AttentionContextBackward& o) const {
    return e(2 * scores(o.dims) + contexts(o.dims) + 2 * values(o.dims));
  }
  Bytes operator()(const AttentionSoftmaxBackward& o) const {
    return e((o.part == SoftmaxPart::dropout ? 2 : 3) * scores(o.dims) + o.dims.heads * o.relative_buckets);
  }
  Bytes operator()(const AttentionScoresBackward& o) const {
    return e(scores(o.dims) + 2 * queries(o.dims) + 2 * keys(o.dims));
  }
  Bytes operator()(const FlashAttention& o) const {
    const std::int64_t merged = o.ring_step > 0 ? 2 : 1;
    return e(queries(o.dims) + pairs(o.dims) + merged * (contexts(o.dims) + stats(o.dims))) + list(o);
  }
  Bytes operator()(const FlashAttentionBackward& o) const {
    const std::int64_t added = o.ring_step > 0 ? 2 : 1;
    return e(queries(o.dims) + 2 * contexts(o.dims) + pairs(o.dims) + stats(o.dims) + added * (queries(o.dims) + pairs(o.dims))) +
           list(o);
  }
  Bytes operator()(const SplitKv& o) const { return e(2 * o.rows * o.dims.kv_width()); }
  Bytes operator()(const MergeKv& o) const { return e(2 * o.rows * o.dims.kv_width()); }
  Bytes operator()(const PackColumns& o) const { return e(o.whole() + o.parted()); }
  Bytes operator()(const UnpackColumns& o) const { return e(o.whole() + o.parted()); }
  Bytes operator()(const OrderRows& o) const { return e(2 * o.elements()); }
  Bytes operator()(const TakePart& o) const { return e(2 * o.rows * o.part_cols()); }
  Bytes operator()(const PlacePart& o) const { return e(o.rows * o.part_cols() + o.whole()); }
  Bytes operator()(const TakeColumns& o) const { return e(2 * o.elements()); }
  Bytes operator()(const AddColumns& o) const { return e(3 * o.elements()); }
  Bytes operator()(const HeadNorm& o) const {
    const std::int64_t moved = o.values == NormedValues::of_keys ? o.elements() + o.written() : 3 * o.elements();
    return e(moved + (o.plain ? 0 : 2) * o.dims.head_dim);
  }
  Bytes operator()(const HeadNormBackward& o) const {
    return e(2 * o.elements() + o.forward().written() + (o.plain ? 0 : 4) * o.dims.head_dim);
  }
  Bytes operator()(const RowNormSums& o) const { return e(o.elements() + 2 * o.rows()); }
  Bytes operator()(const RowNorm& o) const { return e(3 * o.elements() + o.weights() + 2 * o.rows()); }
  Bytes operator()(const RowNormDots& o) const {
    return e(2 * o.elements() + (o.dims.heads + o.dims.groups()) * o.dims.head_dim + 2 * o.rows());
  }
  Bytes operator()(const RowNormBackward& o) const { return e(3 * o.elements() + 2 * o.weights() + 4 * o.rows()); }
  Bytes operator()(const LatentNorm& o) const { return e(2 * o.rows * (o.cols + o.rest) + o.cols + 2 * o.rows); }
  Bytes operator()(const LatentNormBackward& o) const {
    return e(3 * o.rows * o.cols + 2 * o.rows * o.rest + 2 * o.cols + 2 * o.rows);
  }
  Bytes operator()(const LatentHeads& o) const { return e(o.rows() * (apart(o) + o.dims.qkv_width())); }
  Bytes operator()(const LatentHeadsBackward& o) const { return e(o.rows() * (apart(o) + o.dims.qkv_width())); }
  Bytes operator()(const IndexTopK& o) const {
    return e(o.dims.query_elements() + o.dims.key_elements() + o.dims.rows() * o.dims.heads) + list(o.dims);
  }
  Bytes operator()(const IndexTarget& o) const {
    return e(queries(o.dims) + keys(o.dims) + stats(o.dims) + o.dims.batch * o.dims.seq * o.dims.listed_keys()) + list(o.dims);
  }
  Bytes operator()(const IndexTopKBackward& o) const {
    const std::int64_t read = o.dims.query_elements() + o.dims.key_elements() + o.dims.rows() * o.dims.heads;
    return e(2 * read + o.dims.rows() * o.dims.listed()) + list(o.dims);
  }
  Bytes operator()(const ShortConv& o) const { return e(o.dims.mixed() * (2 * o.dims.rows() + o.taps)); }
  Bytes operator()(const ShortConvBackward& o) const { return e(o.dims.mixed() * (3 * o.dims.rows() + 2 * o.taps)); }
  Bytes operator()(const Recurrence& o) const { return recurrence(o.dims); }
  Bytes operator()(const RecurrenceBackward& o) const { return 3 * recurrence(o.dims); }
  Bytes operator()(const GatedNorm& o) const { return e(3 * o.rows * o.parts * o.cols); }
  Bytes operator()(const GatedNormBackward& o) const { return e(5 * o.rows * o.parts * o.cols); }
  Bytes operator()(const SigmoidGate& o) const { return e(3 * o.elements); }
  Bytes operator()(const SigmoidGateBackward& o) const { return e(5 * o.elements); }
  Bytes operator()(const IndexBlocks& o) const {
    return e(o.dims.query_elements() + o.dims.key_elements() + o.dims.rows() * o.dims.heads) + list(o.dims);
  }
  Bytes operator()(const IndexBlocksBackward& o) const {
    const IndexDims d = o.index();
    const std::int64_t of_attention = queries(o.attention) + keys(o.attention) + stats(o.attention);
    return e(of_attention + 2 * (d.query_elements() + d.key_elements()) + d.rows() * d.heads) + list(d);
  }
  Bytes operator()(const Rotary& o) const { return e((o.part == RotaryPart::add ? 3 : 2) * o.elements()); }

  Bytes operator()(const BiasDropoutAdd& o) const {
    return e((o.residual ? 3 : 2) * o.rows * o.cols + (o.bias ? o.cols : 0));
  }
  /// Writes the sum without reading it again.
  Bytes operator()(const BiasDropoutAddNorm& o) const { return (*this)(o.add()) + (*this)(o.norm()) - e(o.rows * o.cols); }
  Bytes operator()(const BiasDropoutAddBackward& o) const { return e(2 * o.rows * o.cols + (o.bias ? o.cols : 0)); }

  Bytes operator()(const Embedding& o) const {
    return e((o.add ? 3 : 2) * o.tokens * o.hidden) + bytes_of(DType::int32, o.tokens);
  }
  Bytes operator()(const EmbeddingBackward& o) const {
    return e(3 * o.tokens * o.hidden + o.vocab_rows * o.hidden) + bytes_of(DType::int32, o.tokens);
  }
  Bytes operator()(const PositionDropout& o) const {
    return e(2 * rows(o) * o.hidden + (o.learned ? o.seq * o.hidden : 0));
  }
  Bytes operator()(const PositionDropoutBackward& o) const {
    return e(2 * rows(o) * o.hidden + (o.learned ? o.max_positions * o.hidden : 0));
  }
  Bytes operator()(const TakeFirst& o) const { return e(2 * o.batch * o.hidden); }
  Bytes operator()(const TakeFirstBackward& o) const { return e(3 * o.batch * o.hidden); }

  Bytes operator()(const VocabMax& o) const { return e(o.dims.rows * o.dims.cols + o.dims.rows); }
  Bytes operator()(const VocabExpSum& o) const { return e(o.dims.rows * o.dims.cols + 3 * o.dims.rows) + ids(o.dims); }
  Bytes operator()(const CrossEntropy& o) const {
    return e(2 * o.dims.rows * o.dims.cols + (o.one_kernel ? 0 : 3) * o.dims.rows) + ids(o.dims);
  }

  Bytes operator()(const Accumulate& o) const {
    return bytes_of(o.source, o.elements) + (o.overwrite ? 1 : 2) * bytes_of(o.destination, o.elements);
  }
  Bytes operator()(const Fill& o) const { return bytes_of(o.dtype, o.elements); }

  Bytes operator()(const TopKRouter& o) const {
    return e(2 * probs(o.dims) + choices(o.dims) + bias(o) + scale(o)) + choice_ids(o.dims);
  }
  Bytes operator()(const TopKRouterBackward& o) const {
    const std::int64_t logits = o.z_loss > 0 ? probs(o.dims) : 0;
    return e(3 * probs(o.dims) + logits + 2 * choices(o.dims) + bias(o) + 2 * scale(o)) + choice_ids(o.dims);
  }
  Bytes operator()(const BalanceGrad& o) const { return e(o.dims.experts) + bytes_of(DType::int32, o.dims.experts); }
  Bytes operator()(const ExpertSlots& o) const {
    return bytes_of(DType::int32, o.members * (2 * choices(o.dims) + o.dims.experts + o.dims.here));
  }
  Bytes operator()(const MoeDispatch& o) const { return e(read_tokens(o.dims) + rows(o.dims) + weights_of(o)) + slots(o.dims); }
  Bytes operator()(const MoeDispatchBackward& o) const {
    return e(tokens(o.dims) + (o.weighted ? read_tokens(o.dims) : 0) + rows(o.dims) + 2 * weights_of(o)) + slots(o.dims);
  }
  Bytes operator()(const MoeCombine& o) const { return e(tokens(o.dims) + rows(o.dims) + weights_of(o)) + slots(o.dims); }
  Bytes operator()(const MoeCombineBackward& o) const {
    return e(read_tokens(o.dims) + (o.weighted ? 2 : 1) * rows(o.dims) + 2 * weights_of(o)) + slots(o.dims);
  }
  Bytes operator()(const GroupedMatMul& o) const {
    return e(o.rows() * (o.k + o.n) + o.experts * o.k * o.n) + ragged_ids(o);
  }
  Bytes operator()(const GroupedWeightGrad& o) const {
    const std::int64_t gradient = o.experts * o.k * o.n;
    return e(o.rows() * (o.k + o.n) + (o.accumulate ? 0 : gradient)) + added_to(o, gradient) + ragged_ids(o);
  }
  Bytes operator()(const GroupedBias& o) const {
    // Single operations: product with the router's weights, sum, join in fp32; rounding back.
    const Bytes wide = o.weighted ? bytes_of(DType::fp32, 6 * o.rows() * o.n) : Bytes(0);
    return e(2 * o.rows() * o.n + o.experts * o.n) + wide + ragged_ids(o);
  }
  Bytes operator()(const GroupedBiasGrad& o) const {
    // Single operations: the rows' gradient to fp32 and back, joined; times weights and times bias, each written, read and summed.
    if (o.weighted) return e(4 * o.rows() * o.n + o.experts * o.n) + bytes_of(DType::fp32, 8 * o.rows() * o.n) + ragged_ids(o);
    return e(o.rows() * o.n + o.experts * o.n) + ragged_ids(o);
  }

  Bytes operator()(const GradNorm& o) const { return bytes_of(o.gradients, o.elements) + words(1); }
  Bytes operator()(const ClipCoefficient&) const { return words(1); }
  Bytes operator()(const AdamW& o) const {
    return bytes_of(o.gradients, o.elements) + 4 * bytes_of(o.state, o.elements) + weights(o);
  }
  Bytes operator()(const Sgd& o) const {
    const Bytes buffer = o.momentum > 0 ? 2 * bytes_of(o.state, o.elements) : Bytes(0);
    return bytes_of(o.gradients, o.elements) + buffer + weights(o);
  }
  /// An iteration makes A from X twice, B from A three times, and X from B and X twice. Around all of them X is written, summed, scaled
  /// and applied.
  Bytes operator()(const Muon& o) const {
    const std::int64_t x = o.rows * o.cols, a = o.shorter() * o.shorter();
    const Bytes passes = bytes_of(o.iteration, o.matrices * (5 * x + o.steps * (5 * x + 6 * a)));
    return bytes_of(o.gradients, o.elements()) + 2 * bytes_of(o.state, o.elements()) + weights(o, o.elements()) + passes;
  }
  Bytes operator()(const TensorNorms& o) const { return bytes_of(o.gradients, o.elements) + words(o.global_parameters); }
  Bytes operator()(const LayerwiseMoments& o) const {
    const std::int64_t sums = o.norms() + (o.kind == LayerwiseKind::lans ? 1 : 0);
    const Bytes read = bytes_of(o.gradients, o.elements) + bytes_of(o.master ? o.masters : o.weights, o.elements);
    return read + 4 * bytes_of(o.state, o.elements) + words(sums * o.global_parameters);
  }
  Bytes operator()(const LayerwiseApply& o) const {
    const std::int64_t sums = o.norms() + (o.kind == LayerwiseKind::lans ? 1 : 0);
    const Bytes read = bytes_of(o.gradients, o.elements) + 2 * bytes_of(o.state, o.elements);
    return read + weights(o) + words(sums * o.global_parameters);
  }
  Bytes operator()(const Collective& o) const { return 2 * bytes_of(o.dtype, o.elements); }
  Bytes operator()(const Send& o) const { return bytes_of(o.dtype, o.elements); }
  Bytes operator()(const Recv& o) const { return bytes_of(o.dtype, o.elements); }
  Bytes operator()(const HostCopy& o) const { return bytes_of(o.dtype, o.elements); }

 private:
  Bytes e(std::int64_t elements) const { return bytes_of(compute_, elements); }
  /// An accumulating product reads and writes its output.
  static Bytes added_to(const auto& o, std::int64_t elements) {
    return o.accumulate ? 2 * bytes_of(o.total, elements) : Bytes(0);
  }
  static std::int64_t other(const Elementwise& o) {
    switch (o.other) {
      case Spread::full: return o.rows * o.cols;
      case Spread::row: return o.rows;
      case Spread::column: return o.cols;
      case Spread::none: return 0;
    }
    return 0;
  }
  static Bytes words(std::int64_t sums) { return bytes_of(DType::int64, sums * kExactWords); }
  static Bytes ids(const VocabDims& d) { return bytes_of(DType::int32, d.rows); }
  static std::int64_t scores(const AttentionDims& d) { return d.batch * d.heads * d.seq * d.key_count(); }
  static std::int64_t queries(const AttentionDims& d) { return d.batch * d.seq * d.heads * d.head_dim; }
  /// Elements of the keys, and as many of the values.
  static std::int64_t keys(const AttentionDims& d) { return d.batch * d.key_count() * d.groups() * d.head_dim; }
  static std::int64_t contexts(const AttentionDims& d) { return d.batch * d.seq * d.context_width(); }
  static std::int64_t values(const AttentionDims& d) { return d.batch * d.key_count() * d.groups() * d.value_width(); }
  static std::int64_t pairs(const AttentionDims& d) { return keys(d) + values(d); }
  /// Columns of the queries, of keys and values, and of what all key heads share.
  static std::int64_t apart(const auto& o) { return o.dims.q_width() + o.kv_width() + o.turned; }
  /// Keys that queries chose.
  static Bytes list(const IndexDims& d) { return bytes_of(DType::int32, d.rows() * d.listed()); }
  static Bytes list(const AttentionDims& d) { return bytes_of(DType::int32, d.batch * d.seq * d.listed_keys()); }
  static Bytes list(const auto& flash) { return flash.chosen ? list(flash.dims) : Bytes(0); }
  /// Traffic of a forward pass: operands, and tensors between its kernels. Mamba 2 writes chunk states in fp32, passes them
  /// on and reads them (state-spaces/mamba: mamba_ssm/ops/triton/ssd_combined.py, _mamba_chunk_scan_combined_fwd), and
  /// products of keys and queries. Delta rule: scores of a chunk's keys and their inverse, keys and values multiplied by it,
  /// new values and states (fla-org/flash-linear-attention: fla/ops/gated_delta_rule/chunk.py, chunk_gated_delta_rule_fwd).
  Bytes recurrence(const RecurrenceDims& d) const {
    const std::int64_t operands = d.rows() * (d.mixed() + d.scalars() + d.values()), states = d.chunks() * d.values() * d.key_dim;
    if (d.rule == RecurrenceRule::mamba2)
      return e(operands + 2 * d.rows() * d.key_heads * d.chunk()) + bytes_of(DType::fp32, 4 * states);
    return e(operands + d.rows() * d.heads * (4 * d.chunk() + 2 * d.key_dim + 4 * d.value_dim) + 2 * states);
  }
  static std::int64_t stats(const AttentionDims& d) { return d.batch * d.heads * d.seq; }
  static std::int64_t rows(const auto& o) { return o.rows > 0 ? o.rows : o.batch * o.seq; }

  static std::int64_t tokens(const MoeDims& d) { return d.tokens * d.hidden; }
  /// Rows that move by element are written and read once more between two orders.
  static std::int64_t rows(const MoeDims& d) { return (d.by_element ? 3 : 1) * d.used_rows() * d.hidden; }
  /// Tokens with an expert here, at most all.
  static std::int64_t read_tokens(const MoeDims& d) {
    return d.room > 0 ? std::min(tokens(d), d.used_rows() * d.hidden) : tokens(d);
  }
  static std::int64_t probs(const MoeDims& d) { return d.tokens * d.experts; }
  static std::int64_t choices(const MoeDims& d) { return d.tokens * d.top_k; }
  static std::int64_t weights_of(const auto& o) { return o.weighted ? choices(o.dims) : 0; }
  static std::int64_t bias(const auto& router) { return router.routing.bias ? router.dims.experts : 0; }
  static std::int64_t scale(const auto& router) { return router.routing.expert_scale ? router.dims.experts : 0; }
  static Bytes slots(const MoeDims& d) { return bytes_of(DType::int32, choices(d)); }
  static Bytes choice_ids(const MoeDims& d) { return slots(d) + bytes_of(DType::int32, d.experts); }
  static Bytes ragged_ids(const auto& o) { return bytes_of(DType::int32, o.ragged ? o.experts : 0); }

  /// Weights read and written; with master weights these are, and the weights are only written.
  static Bytes weights(const auto& o, std::int64_t elements) {
    if (!o.master) return 2 * bytes_of(o.weights, elements);
    return 2 * bytes_of(o.masters, elements) + bytes_of(o.weights, elements);
  }
  static Bytes weights(const auto& o) { return weights(o, o.elements); }

  DType compute_;
};

}  // namespace

Bytes traffic(const Op& op, DType compute) { return std::visit(TrafficOf(compute), op); }

}  // namespace tandem
