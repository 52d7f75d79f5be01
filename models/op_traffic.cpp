// Bytes an operation moves when each operand goes to or from device memory once.

#include "models/op.hpp"

namespace tandem {
namespace {

/// Bytes of every kind of operand, for one compute type.
class TrafficOf {
 public:
  explicit TrafficOf(DType compute) : compute_(compute) {}

  Bytes operator()(const MatMul& o) const {
    return e(o.m * o.k + o.k * o.n + o.m * o.n + (o.bias ? o.n : 0));
  }
  Bytes operator()(const BiasGrad& o) const { return e(o.rows * o.cols + o.cols); }
  Bytes operator()(const LayerNorm& o) const { return e(2 * o.rows * o.cols + (o.rms ? 1 : 2) * o.cols + 2 * o.rows); }
  Bytes operator()(const LayerNormBackward& o) const {
    return e((o.add_residual ? 4 : 3) * o.rows * o.cols + (o.rms ? 2 : 3) * o.cols + 2 * o.rows);
  }
  Bytes operator()(const Pointwise& o) const { return e(2 * o.elements); }
  Bytes operator()(const PointwiseBackward& o) const { return e(3 * o.elements); }
  Bytes operator()(const GatedPointwise& o) const { return e(3 * o.rows * o.cols); }
  Bytes operator()(const GatedPointwiseBackward& o) const { return e(5 * o.rows * o.cols); }

  Bytes operator()(const AttentionScores& o) const { return e(scores(o.dims) + queries(o.dims) + keys(o.dims)); }
  Bytes operator()(const AttentionSoftmax& o) const { return e((o.dropout > 0 ? 3 : 2) * scores(o.dims)); }
  Bytes operator()(const AttentionContext& o) const { return e(scores(o.dims) + queries(o.dims) + keys(o.dims)); }
  Bytes operator()(const AttentionContextBackward& o) const {
    return e(2 * scores(o.dims) + queries(o.dims) + 2 * keys(o.dims));
  }
  Bytes operator()(const AttentionSoftmaxBackward& o) const { return e(3 * scores(o.dims)); }
  Bytes operator()(const AttentionScoresBackward& o) const {
    return e(scores(o.dims) + 2 * queries(o.dims) + 2 * keys(o.dims));
  }
  Bytes operator()(const Rotary& o) const { return e(2 * queries(o.dims) + 2 * keys(o.dims)); }

  Bytes operator()(const BiasDropoutAdd& o) const { return e(3 * o.rows * o.cols + (o.bias ? o.cols : 0)); }
  Bytes operator()(const BiasDropoutAddBackward& o) const { return e(2 * o.rows * o.cols + (o.bias ? o.cols : 0)); }

  Bytes operator()(const Embedding& o) const { return e(2 * o.tokens * o.hidden) + bytes_of(DType::int32, o.tokens); }
  Bytes operator()(const EmbeddingBackward& o) const {
    return e(3 * o.tokens * o.hidden + o.vocab_rows * o.hidden) + bytes_of(DType::int32, o.tokens);
  }
  Bytes operator()(const PositionDropout& o) const {
    return e(2 * o.batch * o.seq * o.hidden + (o.learned ? o.seq * o.hidden : 0));
  }
  Bytes operator()(const PositionDropoutBackward& o) const {
    return e(2 * o.batch * o.seq * o.hidden + (o.learned ? o.max_positions * o.hidden : 0));
  }

  Bytes operator()(const VocabMax& o) const { return e(o.dims.rows * o.dims.cols + o.dims.rows); }
  Bytes operator()(const VocabExpSum& o) const { return e(o.dims.rows * o.dims.cols + 3 * o.dims.rows) + ids(o.dims); }
  Bytes operator()(const CrossEntropy& o) const { return e(2 * o.dims.rows * o.dims.cols + 3 * o.dims.rows) + ids(o.dims); }

  Bytes operator()(const Accumulate& o) const {
    return bytes_of(o.source, o.elements) + 2 * bytes_of(o.destination, o.elements);
  }
  Bytes operator()(const GradNorm& o) const { return bytes_of(o.gradients, o.elements) + f64(o.global_parameters); }
  Bytes operator()(const ClipCoefficient& o) const { return f64(o.global_parameters); }
  Bytes operator()(const AdamW& o) const {
    const Bytes state = 4 * bytes_of(o.state, o.elements);
    const Bytes weights = o.master ? 2 * bytes_of(o.state, o.elements) + bytes_of(o.weights, o.elements)
                                   : 2 * bytes_of(o.weights, o.elements);
    return bytes_of(o.gradients, o.elements) + state + weights;
  }
  Bytes operator()(const Collective& o) const { return 2 * bytes_of(o.dtype, o.elements); }
  Bytes operator()(const Send& o) const { return bytes_of(o.dtype, o.elements); }
  Bytes operator()(const Recv& o) const { return bytes_of(o.dtype, o.elements); }

 private:
  Bytes e(std::int64_t elements) const { return bytes_of(compute_, elements); }
  static Bytes f64(std::int64_t elements) { return bytes_of(DType::fp64, elements); }
  static Bytes ids(const VocabDims& d) { return bytes_of(DType::int32, d.rows); }
  static std::int64_t scores(const AttentionDims& d) { return d.batch * d.heads * d.seq * d.seq; }
  static std::int64_t queries(const AttentionDims& d) { return d.batch * d.seq * d.heads * d.head_dim; }
  /// Elements of the keys, and as many of the values.
  static std::int64_t keys(const AttentionDims& d) { return d.batch * d.seq * d.groups() * d.head_dim; }

  DType compute_;
};

}  // namespace

Bytes traffic(const Op& op, DType compute) { return std::visit(TrafficOf(compute), op); }

}  // namespace tandem
