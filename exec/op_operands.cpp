#include "exec/op_operands.hpp"

#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

using List = std::vector<OperandSize>;

class Sizes {
 public:
  explicit Sizes(DType t) : t_(t) {}

  OperandSizes operator()(const MatMul& o) const {
    return {with({v(o.m * o.k), v(o.k * o.n)}, o.bias, v(o.n)), {v(o.m * o.n)}};
  }
  OperandSizes operator()(const BiasGrad& o) const { return {{v(o.rows * o.cols)}, {v(o.cols)}}; }
  OperandSizes operator()(const LayerNorm& o) const {
    return {with({v(o.rows * o.cols), v(o.cols)}, !o.rms, v(o.cols)), {v(o.rows * o.cols), v(o.rows * 2)}};
  }
  OperandSizes operator()(const LayerNormBackward& o) const {
    const auto x = v(o.rows * o.cols);
    return {with({x, x, v(o.rows * 2), v(o.cols)}, o.add_residual, x), with({x, v(o.cols)}, !o.rms, v(o.cols))};
  }
  OperandSizes operator()(const Pointwise& o) const { return {{v(o.elements)}, {v(o.elements)}}; }
  OperandSizes operator()(const PointwiseBackward& o) const { return {{v(o.elements), v(o.elements)}, {v(o.elements)}}; }
  OperandSizes operator()(const GatedPointwise& o) const { return {{v(2 * o.rows * o.cols)}, {v(o.rows * o.cols)}}; }
  OperandSizes operator()(const GatedPointwiseBackward& o) const {
    return {{v(o.rows * o.cols), v(2 * o.rows * o.cols)}, {v(2 * o.rows * o.cols)}};
  }
  OperandSizes operator()(const Rotary& o) const { return {{qkv(o.dims)}, {over(0, qkv(o.dims))}}; }
  OperandSizes operator()(const AttentionScores& o) const { return {{qkv(o.dims)}, {scores(o.dims)}}; }
  OperandSizes operator()(const AttentionSoftmax& o) const {
    return {{scores(o.dims)}, with({scores(o.dims)}, o.dropout > 0, scores(o.dims))};
  }
  OperandSizes operator()(const AttentionContext& o) const { return {{scores(o.dims), qkv(o.dims)}, {context(o.dims)}}; }
  OperandSizes operator()(const AttentionContextBackward& o) const {
    return {{context(o.dims), scores(o.dims), qkv(o.dims)}, {scores(o.dims), qkv(o.dims)}};
  }
  OperandSizes operator()(const AttentionSoftmaxBackward& o) const {
    return {{scores(o.dims), scores(o.dims)}, {scores(o.dims)}};
  }
  OperandSizes operator()(const AttentionScoresBackward& o) const {
    return {{scores(o.dims), qkv(o.dims), qkv(o.dims)}, {over(2, qkv(o.dims))}};
  }
  OperandSizes operator()(const BiasDropoutAdd& o) const {
    const auto x = v(o.rows * o.cols);
    return {o.bias ? List{x, v(o.cols), x} : List{x, x}, {x}};
  }
  OperandSizes operator()(const BiasDropoutAddBackward& o) const {
    return {{v(o.rows * o.cols)}, with({v(o.rows * o.cols)}, o.bias, v(o.cols))};
  }
  OperandSizes operator()(const Embedding& o) const {
    return {{ids(o.tokens), v(o.vocab_rows * o.hidden)}, {v(o.tokens * o.hidden)}};
  }
  OperandSizes operator()(const EmbeddingBackward& o) const {
    return {{ids(o.tokens), v(o.tokens * o.hidden)}, {v(o.vocab_rows * o.hidden)}};
  }
  OperandSizes operator()(const PositionDropout& o) const {
    const auto x = v(o.batch * o.seq * o.hidden);
    return {with({x}, o.learned, v(o.seq * o.hidden)), {x}};
  }
  OperandSizes operator()(const PositionDropoutBackward& o) const {
    const auto x = v(o.batch * o.seq * o.hidden);
    return {{x}, with({x}, o.learned, v(o.max_positions * o.hidden))};
  }
  OperandSizes operator()(const VocabMax& o) const { return {{logits(o.dims)}, {v(o.dims.rows)}}; }
  OperandSizes operator()(const VocabExpSum& o) const {
    return {{logits(o.dims), v(o.dims.rows), ids(o.dims.rows)}, {v(2 * o.dims.rows)}};
  }
  OperandSizes operator()(const CrossEntropy& o) const {
    const OperandSize loss{1, DType::fp64};
    List in{logits(o.dims), v(o.dims.rows), v(2 * o.dims.rows), ids(o.dims.rows)};
    return {with(in, !o.first, loss), {o.first ? loss : over(4, loss), logits(o.dims)}};
  }
  OperandSizes operator()(const Accumulate& o) const {
    const OperandSize total{o.elements, o.destination};
    return {{{o.elements, o.source}, total}, {over(1, total)}};
  }
  OperandSizes operator()(const GradNorm& o) const {
    return {{{o.elements, o.gradients}}, {{o.global_parameters, DType::fp64}}};
  }
  OperandSizes operator()(const ClipCoefficient& o) const { return {{{o.global_parameters, DType::fp64}}, {}}; }
  OperandSizes operator()(const AdamW& o) const {
    const OperandSize weights{o.elements, o.weights}, state{o.elements, o.state}, master{o.elements, DType::fp32};
    return {with({{o.elements, o.gradients}, weights, state, state}, o.master, master),
            with({over(1, weights), over(2, state), over(3, state)}, o.master, over(4, master))};
  }
  OperandSizes operator()(const Collective&) const { return communication(); }
  OperandSizes operator()(const Send&) const { return communication(); }
  OperandSizes operator()(const Recv&) const { return communication(); }

 private:
  OperandSize v(std::int64_t elements) const { return {elements, t_}; }
  static OperandSize ids(std::int64_t elements) { return {elements, DType::int32}; }
  OperandSize qkv(const AttentionDims& d) const { return v(d.batch * d.seq * d.qkv_width()); }
  OperandSize context(const AttentionDims& d) const { return v(d.batch * d.seq * d.heads * d.head_dim); }
  OperandSize scores(const AttentionDims& d) const { return v(d.batch * d.heads * d.seq * d.seq); }
  OperandSize logits(const VocabDims& d) const { return v(d.rows * d.cols); }

  static List with(List list, bool present, OperandSize last) {
    if (present) list.push_back(last);
    return list;
  }
  static OperandSize over(int input, OperandSize o) {
    o.same_as_input = input;
    return o;
  }
  [[noreturn]] static OperandSizes communication() { throw ContractError("communication has no operands of a backend"); }

  DType t_;
};

}  // namespace

OperandSizes operand_sizes(const Op& op, DType dtype) { return std::visit(Sizes(dtype), op); }

}  // namespace tandem::exec
