#include "exec/measure/op_operands.hpp"

#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

using List = std::vector<OperandSize>;

class Sizes {
 public:
  explicit Sizes(DType t) : t_(t) {}

  OperandSizes operator()(const MatMul& o) const {
    const auto c = v(o.m * o.n);
    const List in = with({v(o.m * o.k), v(o.k * o.n)}, o.bias, v(o.n));
    OperandSizes all = added_to(o, with(in, o.activation == ProductActivation::gelu_gradient, c), o.m * o.n);
    all.outputs = with(with(all.outputs, o.sums, v(o.m)), o.activation == ProductActivation::gelu, c);
    return all;
  }
  OperandSizes operator()(const Dequantize& o) const { return {{{o.elements, o.source}}, {{o.elements, o.destination}}}; }
  OperandSizes operator()(const BiasGrad& o) const { return {{v(o.rows * o.cols)}, {v(o.cols)}}; }
  OperandSizes operator()(const LayerNorm& o) const {
    return {with({v(o.rows * o.cols), v(o.cols)}, o.has_beta(), v(o.cols)), {v(o.rows * o.cols), v(o.rows * 2)}};
  }
  OperandSizes operator()(const LayerNormBackward& o) const {
    const bool input = o.part != NormPart::parameters, parameters = o.part != NormPart::input;
    const auto x = v(o.rows * o.cols), gamma = v(o.cols);
    return {with(with({x, x, v(o.rows * 2)}, input, gamma), o.add_residual, x),
            with(with(with({}, input, x), parameters, gamma), parameters && o.has_beta(), gamma)};
  }
  OperandSizes operator()(const Pointwise& o) const {
    return {with({v(o.elements)}, o.bias_cols > 0, v(o.bias_cols)), {v(o.elements)}};
  }
  OperandSizes operator()(const PointwiseBackward& o) const {
    return {with({v(o.elements), v(o.elements)}, o.bias_cols > 0, v(o.bias_cols)), {v(o.elements)}};
  }
  OperandSizes operator()(const GatedPointwise& o) const {
    const auto x = v(2 * o.rows * o.cols), y = v(o.rows * o.cols);
    return {o.part == GatePart::product ? List{y, x} : List{x}, {y}};
  }
  OperandSizes operator()(const GatedPointwiseBackward& o) const {
    const auto dy = v(o.rows * o.cols), x = v(2 * o.rows * o.cols);
    switch (o.part) {
      case GatePart::whole: return {{dy, x}, {x}};
      case GatePart::product: return {{dy, dy, x}, {dy, x}};
      case GatePart::activation: return {{dy, x, x}, {over(2, x)}};
    }
    return {};
  }
  OperandSizes operator()(const SoftCap& o) const { return {{v(o.elements)}, {over(0, v(o.elements))}}; }
  OperandSizes operator()(const SoftCapBackward& o) const { return {{v(o.elements), v(o.elements)}, {over(0, v(o.elements))}}; }
  OperandSizes operator()(const RowGate& o) const { return {{v(o.rows * o.cols), v(o.rows)}, {v(o.rows * o.cols)}}; }
  OperandSizes operator()(const RowGateBackward& o) const {
    const auto x = v(o.rows * o.cols), gate = v(o.rows);
    return {{x, x, gate}, {x, gate}};
  }
  OperandSizes operator()(const Elementwise& o) const {
    const auto a = v(o.rows * o.cols);
    switch (o.other) {
      case Spread::full: return {with({a}, o.kind != ElementwiseKind::square, a), {a}};
      case Spread::row: return {{a, v(o.rows)}, {a}};
      case Spread::column: return {{a, v(o.cols)}, {a}};
      case Spread::none: return {{a}, {a}};
    }
    return {};
  }
  OperandSizes operator()(const RowReduce& o) const { return {{v(o.rows * o.cols)}, {v(o.rows)}}; }
  OperandSizes operator()(const HeadNorm& o) const {
    const auto gamma = v(o.dims.head_dim);
    if (o.values == NormedValues::of_keys) return {{v(o.elements()), gamma, gamma}, {qkv(o.dims)}};
    return {with(with({qkv(o.dims)}, !o.plain, gamma), !o.plain, gamma), {over(0, qkv(o.dims)), v(o.elements())}};
  }
  OperandSizes operator()(const HeadNormBackward& o) const {
    const auto gamma = v(o.dims.head_dim);
    if (o.values == NormedValues::of_keys) return {{qkv(o.dims), v(o.elements()), gamma, gamma}, {v(o.elements()), gamma, gamma}};
    return {with(with({qkv(o.dims), v(o.elements())}, !o.plain, gamma), !o.plain, gamma),
            with(with({over(0, qkv(o.dims))}, !o.plain, gamma), !o.plain, gamma)};
  }
  OperandSizes operator()(const RowNormSums& o) const { return {{qkv(o.dims)}, {v(2 * o.rows())}}; }
  OperandSizes operator()(const RowNorm& o) const {
    return {{qkv(o.dims), queries(o.dims), keys(o.dims), v(2 * o.rows())}, {over(0, qkv(o.dims)), v(o.elements())}};
  }
  OperandSizes operator()(const RowNormDots& o) const {
    return {{qkv(o.dims), v(o.elements()), queries(o.dims), keys(o.dims)}, {v(2 * o.rows())}};
  }
  OperandSizes operator()(const RowNormBackward& o) const {
    const auto sums = v(2 * o.rows());
    return {{qkv(o.dims), v(o.elements()), queries(o.dims), keys(o.dims), sums, sums},
            {over(0, qkv(o.dims)), queries(o.dims), keys(o.dims)}};
  }
  OperandSizes operator()(const LatentNorm& o) const {
    return {{v(o.rows * (o.cols + o.rest)), v(o.cols)}, {v(o.rows * o.cols), v(o.rows * o.rest), v(o.rows * 2)}};
  }
  OperandSizes operator()(const LatentNormBackward& o) const {
    const auto x = v(o.rows * (o.cols + o.rest));
    return {{v(o.rows * o.cols), v(o.rows * o.rest), x, v(o.rows * 2), v(o.cols)}, {x, v(o.cols)}};
  }
  OperandSizes operator()(const LatentHeads& o) const { return {latent_parts(o), {qkv(o.dims)}}; }
  OperandSizes operator()(const LatentHeadsBackward& o) const { return {{qkv(o.dims)}, latent_parts(o)}; }
  OperandSizes operator()(const Rotary& o) const {
    const auto turned = v(o.elements());
    switch (o.part) {
      case RotaryPart::whole: case RotaryPart::cosine: return {{q(o.dims)}, {over(0, q(o.dims))}};
      case RotaryPart::swap: return {{q(o.dims)}, {turned}};
      case RotaryPart::sine: return {{turned}, {over(0, turned)}};
      case RotaryPart::add: return {{turned, q(o.dims)}, {over(1, q(o.dims))}};
    }
    return {};
  }
  OperandSizes operator()(const IndexTopK& o) const { return {index_parts(o.dims), {ids(o.dims.rows() * o.dims.listed())}}; }
  OperandSizes operator()(const IndexTarget& o) const {
    const std::int64_t listed = o.dims.batch * o.dims.seq * o.dims.listed_keys();
    return {{q(o.dims), kv(o.dims), v(o.dims.batch * o.dims.heads * o.dims.seq), ids(listed)}, {v(listed)}};
  }
  OperandSizes operator()(const IndexTopKBackward& o) const {
    const std::int64_t listed = o.dims.rows() * o.dims.listed();
    List in{v(listed)};
    for (const OperandSize& part : index_parts(o.dims)) in.push_back(part);
    return {with(in, true, ids(listed)), index_parts(o.dims)};
  }
  OperandSizes operator()(const ShortConv& o) const {
    return {with({mixed(o.dims), v(o.dims.mixed() * o.taps)}, o.bias, v(o.dims.mixed())), {mixed(o.dims)}};
  }
  OperandSizes operator()(const ShortConvBackward& o) const {
    const OperandSize weight = v(o.dims.mixed() * o.taps), bias = v(o.dims.mixed());
    return {with({mixed(o.dims), mixed(o.dims), weight}, o.bias, bias), with({mixed(o.dims), weight}, o.bias, bias)};
  }
  OperandSizes operator()(const Recurrence& o) const { return {recurrence_parts(o.dims), {v(o.dims.rows() * o.dims.values())}}; }
  OperandSizes operator()(const RecurrenceBackward& o) const {
    List in{v(o.dims.rows() * o.dims.values())};
    for (const OperandSize& part : recurrence_parts(o.dims)) in.push_back(part);
    return {in, recurrence_parts(o.dims)};
  }
  OperandSizes operator()(const GatedNorm& o) const {
    const OperandSize x = v(o.rows * o.parts * o.cols);
    return {{x, x, v(o.weights())}, {x, v(o.rows * o.parts)}};
  }
  OperandSizes operator()(const GatedNormBackward& o) const {
    const OperandSize x = v(o.rows * o.parts * o.cols), weight = v(o.weights());
    return {{x, x, x, weight, v(o.rows * o.parts)}, {x, x, weight}};
  }
  OperandSizes operator()(const SigmoidGate& o) const { return {{v(o.elements), v(o.elements)}, {v(o.elements)}}; }
  OperandSizes operator()(const SigmoidGateBackward& o) const {
    return {{v(o.elements), v(o.elements), v(o.elements)}, {v(o.elements), v(o.elements)}};
  }
  OperandSizes operator()(const IndexBlocks& o) const {
    const IndexDims& d = o.dims;
    return {{v(d.query_elements()), v(d.key_elements())}, {ids(d.rows() * d.listed()), v(d.rows() * d.heads)}};
  }
  OperandSizes operator()(const IndexBlocksBackward& o) const {
    const AttentionDims& a = o.attention;
    const IndexDims d = o.index();
    const List parts{v(d.query_elements()), v(d.key_elements())};
    List in{q(a), kv(a), v(a.batch * a.heads * a.seq), parts[0], parts[1], ids(d.rows() * d.listed()), v(d.rows() * d.heads)};
    return {std::move(in), parts};
  }
  OperandSizes operator()(const AttentionScores& o) const { return {{q(o.dims), kv(o.dims)}, {scores(o.dims)}}; }
  OperandSizes operator()(const AttentionSoftmax& o) const {
    return {with({scores(o.dims)}, o.relative_buckets > 0, v(o.dims.heads * o.relative_buckets)),
            with({scores(o.dims)}, o.part == SoftmaxPart::whole && o.dropout > 0, scores(o.dims))};
  }
  OperandSizes operator()(const AttentionContext& o) const { return {{scores(o.dims), kv(o.dims)}, {context(o.dims)}}; }
  OperandSizes operator()(const AttentionContextBackward& o) const {
    return {{context(o.dims), scores(o.dims), kv(o.dims)}, {scores(o.dims), kv(o.dims)}};
  }
  OperandSizes operator()(const AttentionSoftmaxBackward& o) const {
    return {with({scores(o.dims)}, o.part != SoftmaxPart::dropout, scores(o.dims)),
            with({scores(o.dims)}, o.relative_buckets > 0, v(o.dims.heads * o.relative_buckets))};
  }
  OperandSizes operator()(const AttentionScoresBackward& o) const {
    const auto dkv = kv(o.dims);
    return {{scores(o.dims), q(o.dims), dkv, dkv}, {both_packed(o.dims) ? over(3, dkv) : q(o.dims), over(3, dkv)}};
  }
  OperandSizes operator()(const FlashAttention& o) const {
    const auto result = context(o.dims), stats = v(o.dims.batch * o.dims.heads * o.dims.seq);
    if (o.ring_step <= 0)
      return {with(with({q(o.dims), kv(o.dims)}, o.sinks, v(o.dims.heads)), o.chosen, chosen(o.dims)), {result, stats}};
    return {{q(o.dims), kv(o.dims), result, stats}, {over(2, result), over(3, stats)}};
  }
  OperandSizes operator()(const FlashAttentionBackward& o) const {
    const auto dq = q(o.dims), dkv = kv(o.dims), result = context(o.dims);
    const List in{result, dq, dkv, result, v(o.dims.batch * o.dims.heads * o.dims.seq)};
    if (o.ring_step <= 0)
      return {with(with(in, o.sinks, v(o.dims.heads)), o.chosen, chosen(o.dims)),
              with({dq, both_packed(o.dims) ? as_output(0, dkv) : dkv}, o.sinks, v(o.dims.heads))};
    return {with(with(in, true, dq), true, dkv), {over(5, dq), over(6, dkv)}};
  }
  OperandSizes operator()(const SplitKv& o) const {
    return {{v(o.rows * o.dims.qkv_width())}, {v(o.rows * o.dims.kv_width())}};
  }
  OperandSizes operator()(const MergeKv& o) const {
    const auto dqkv = v(o.rows * o.dims.qkv_width());
    return {{v(o.rows * o.dims.kv_width()), dqkv}, {over(1, dqkv)}};
  }
  OperandSizes operator()(const PackColumns& o) const { return {{v(o.whole())}, {v(o.parted())}}; }
  OperandSizes operator()(const UnpackColumns& o) const { return {{v(o.parted())}, {v(o.whole())}}; }
  OperandSizes operator()(const OrderRows& o) const { return {{v(o.elements())}, {v(o.elements())}}; }
  OperandSizes operator()(const TakePart& o) const { return {{v(o.whole())}, {v(o.rows * o.part_cols())}}; }
  OperandSizes operator()(const PlacePart& o) const { return {{v(o.rows * o.part_cols())}, {v(o.whole())}}; }
  OperandSizes operator()(const TakeColumns& o) const { return {{v(o.whole())}, {v(o.elements())}}; }
  OperandSizes operator()(const AddColumns& o) const { return {{v(o.elements()), v(o.whole())}, {over(1, v(o.whole()))}}; }
  OperandSizes operator()(const BiasDropoutAdd& o) const {
    const auto x = v(o.rows * o.cols);
    return {with(with({x}, o.bias, v(o.cols)), o.residual, x), {x}};
  }
  OperandSizes operator()(const BiasDropoutAddBackward& o) const {
    return {{v(o.rows * o.cols)}, with({v(o.rows * o.cols)}, o.bias, v(o.cols))};
  }
  OperandSizes operator()(const BiasDropoutAddNorm& o) const {
    const auto x = v(o.rows * o.cols), gamma = v(o.cols);
    return {with(with(with(with({x}, o.bias, gamma), true, x), true, gamma), o.norm().has_beta(), gamma), {x, x, v(o.rows * 2)}};
  }
  OperandSizes operator()(const Embedding& o) const {
    const auto y = v(o.tokens * o.hidden);
    return {with({ids(o.tokens), v(o.vocab_rows * o.hidden)}, o.add, y), {o.add ? over(2, y) : y}};
  }
  OperandSizes operator()(const EmbeddingBackward& o) const {
    return {{ids(o.tokens), v(o.tokens * o.hidden)}, {v(o.vocab_rows * o.hidden)}};
  }
  OperandSizes operator()(const PositionDropout& o) const {
    const auto x = v(rows(o) * o.hidden);
    return {with({x}, o.learned, v(o.seq * o.hidden)), {x}};
  }
  OperandSizes operator()(const PositionDropoutBackward& o) const {
    const auto x = v(rows(o) * o.hidden);
    return {{x}, with({x}, o.learned, v(o.max_positions * o.hidden))};
  }
  OperandSizes operator()(const TakeFirst& o) const { return {{v(o.batch * o.seq * o.hidden)}, {v(o.batch * o.hidden)}}; }
  OperandSizes operator()(const TakeFirstBackward& o) const {
    const auto dx = v(o.batch * o.seq * o.hidden);
    return {{v(o.batch * o.hidden), dx}, {over(1, dx)}};
  }
  OperandSizes operator()(const VocabMax& o) const { return {{logits(o.dims)}, {v(o.dims.rows)}}; }
  OperandSizes operator()(const VocabExpSum& o) const {
    return {{logits(o.dims), v(o.dims.rows), ids(o.dims.rows)}, {v(2 * o.dims.rows)}};
  }
  OperandSizes operator()(const CrossEntropy& o) const {
    const OperandSize loss{1, DType::fp64};
    const List apart{logits(o.dims), v(o.dims.rows), v(2 * o.dims.rows), ids(o.dims.rows)};
    const List in = o.one_kernel ? List{logits(o.dims), ids(o.dims.rows)} : apart;
    return {with(in, !o.first, loss), {o.first ? loss : over(static_cast<int>(in.size()), loss), logits(o.dims)}};
  }
  OperandSizes operator()(const Accumulate& o) const {
    const OperandSize total{o.elements, o.destination};
    if (o.overwrite) return {{{o.elements, o.source}}, {total}};
    return {{{o.elements, o.source}, total}, {over(1, total)}};
  }
  OperandSizes operator()(const Fill& o) const { return {{}, {{o.elements, o.dtype}}}; }

  OperandSizes operator()(const TopKRouter& o) const {
    const auto probs = v(o.dims.tokens * o.dims.experts);
    const auto each = v(o.dims.experts);
    return {with(with({probs}, o.routing.bias, each), o.routing.expert_scale, each),
            {probs, v(choices(o.dims)), ids(choices(o.dims)), ids(o.dims.experts)}};
  }
  OperandSizes operator()(const TopKRouterBackward& o) const {
    const auto probs = v(o.dims.tokens * o.dims.experts), weights = v(choices(o.dims));
    const auto each = v(o.dims.experts);
    const auto in = with({weights, probs, weights, ids(choices(o.dims)), ids(o.dims.experts), probs}, o.routing.bias, each);
    return {with(in, o.routing.expert_scale, each), with({probs}, o.routing.expert_scale, each)};
  }
  OperandSizes operator()(const BalanceGrad& o) const { return {{ids(o.dims.experts)}, {v(o.dims.experts)}}; }
  OperandSizes operator()(const ExpertSlots& o) const {
    return {{ids(o.members * choices(o.dims)), ids(o.members * o.dims.experts)},
            {ids(o.members * choices(o.dims)), ids(o.members * o.dims.here)}};
  }
  OperandSizes operator()(const MoeDispatch& o) const {
    return {with({tokens(o.dims), ids(choices(o.dims))}, o.weighted, v(choices(o.dims))), {expert_rows(o.dims)}};
  }
  OperandSizes operator()(const MoeDispatchBackward& o) const {
    const auto x = tokens(o.dims), weights = v(choices(o.dims));
    return {with(with({expert_rows(o.dims), ids(choices(o.dims))}, o.weighted, x), o.weighted, weights),
            with({x}, o.weighted, weights)};
  }
  OperandSizes operator()(const MoeCombine& o) const {
    return {with({expert_rows(o.dims), ids(choices(o.dims))}, o.weighted, v(choices(o.dims))), {tokens(o.dims)}};
  }
  OperandSizes operator()(const MoeCombineBackward& o) const {
    if (!o.weighted) return {{tokens(o.dims), ids(choices(o.dims))}, {expert_rows(o.dims)}};
    return {{tokens(o.dims), expert_rows(o.dims), ids(choices(o.dims)), v(choices(o.dims))},
            {expert_rows(o.dims), v(choices(o.dims))}};
  }
  OperandSizes operator()(const GroupedMatMul& o) const {
    return {with({v(o.rows() * o.k), v(o.experts * o.k * o.n)}, o.ragged, ids(o.groups * o.experts)), {v(o.rows() * o.n)}};
  }
  OperandSizes operator()(const GroupedWeightGrad& o) const {
    const List in = with({v(o.rows() * o.n), v(o.rows() * o.k)}, o.ragged, ids(o.groups * o.experts));
    return added_to(o, in, o.experts * o.n * o.k);
  }
  OperandSizes operator()(const GroupedBias& o) const {
    const OperandSize x = v(o.rows() * o.n);
    return {with({x, v(o.experts * o.n)}, o.ragged, ids(o.groups * o.experts)), {over(0, x)}};
  }
  OperandSizes operator()(const GroupedBiasGrad& o) const {
    return {with({v(o.rows() * o.n)}, o.ragged, ids(o.groups * o.experts)), {v(o.experts * o.n)}};
  }

  OperandSizes operator()(const GradNorm& o) const { return {{{o.elements, o.gradients}}, {sums(1)}}; }
  OperandSizes operator()(const ClipCoefficient&) const { return {{sums(1)}, {}}; }
  OperandSizes operator()(const AdamW& o) const {
    const OperandSize weights{o.elements, o.weights}, state{o.elements, o.state};
    return {with({{o.elements, o.gradients}, weights, state, state}, o.master, master(o)),
            with({over(1, weights), over(2, state), over(3, state)}, o.master, over(4, master(o)))};
  }
  OperandSizes operator()(const Sgd& o) const {
    const OperandSize weights{o.elements, o.weights}, buffer{o.elements, o.state};
    const bool has_buffer = o.momentum > 0;
    return {with(with({{o.elements, o.gradients}, weights}, has_buffer, buffer), o.master, master(o)),
            with(with({over(1, weights)}, has_buffer, over(2, buffer)), o.master, over(has_buffer ? 3 : 2, master(o)))};
  }
  OperandSizes operator()(const Muon& o) const {
    const std::int64_t n = o.elements();
    const OperandSize weights{n, o.weights}, buffer{n, o.state}, master{n, o.masters};
    return {with({{n, o.gradients}, weights, buffer}, o.master, master),
            with({over(1, weights), over(2, buffer), {o.room_elements(), o.iteration}}, o.master, over(3, master))};
  }
  OperandSizes operator()(const TensorNorms& o) const {
    return {{{o.elements, o.gradients}}, {sums(o.global_parameters)}};
  }
  OperandSizes operator()(const LayerwiseMoments& o) const {
    const OperandSize weights{o.elements, o.weights}, state{o.elements, o.state};
    const List in{{o.elements, o.gradients}, o.master ? master(o) : weights, state, state};
    return {with(in, o.kind == LayerwiseKind::lans, sums(o.global_parameters)),
            {over(2, state), over(3, state), sums(o.norms() * o.global_parameters)}};
  }
  OperandSizes operator()(const LayerwiseApply& o) const {
    const OperandSize weights{o.elements, o.weights}, state{o.elements, o.state};
    const bool lans = o.kind == LayerwiseKind::lans;
    const List in{{o.elements, o.gradients}, state, state, sums(o.norms() * o.global_parameters)};
    const int at = lans ? 5 : 4;
    return {with(with(with(in, lans, sums(o.global_parameters)), true, weights), o.master, master(o)),
            with({over(at, weights)}, o.master, over(at + 1, master(o)))};
  }
  OperandSizes operator()(const Collective&) const { return communication(); }
  OperandSizes operator()(const Send&) const { return communication(); }
  OperandSizes operator()(const Recv&) const { return communication(); }
  OperandSizes operator()(const HostCopy&) const { return communication(); }

 private:
  OperandSize v(std::int64_t elements) const { return {elements, t_}; }
  static OperandSize ids(std::int64_t elements) { return {elements, DType::int32}; }
  static OperandSize sums(std::int64_t n) { return {n * kExactWords, DType::int64}; }
  static OperandSize master(const auto& o) { return {o.elements, o.masters}; }
  static bool both_packed(const AttentionDims& d) { return d.q_packed && d.kv_packed; }
  OperandSize qkv(const AttentionDims& d) const { return v(d.batch * d.seq * d.qkv_width()); }
  OperandSize q(const AttentionDims& d) const { return v(d.batch * d.seq * (d.q_packed ? d.qkv_width() : d.q_width())); }
  OperandSize kv(const AttentionDims& d) const {
    return v(d.batch * d.key_count() * (d.kv_packed ? d.qkv_width() : d.kv_width()));
  }
  OperandSize context(const AttentionDims& d) const { return v(d.batch * d.seq * d.context_width()); }
  OperandSize queries(const AttentionDims& d) const { return v(d.heads * d.head_dim); }
  OperandSize keys(const AttentionDims& d) const { return v(d.groups() * d.head_dim); }
  List latent_parts(const auto& o) const {
    return {v(o.rows() * o.dims.q_width()), v(o.rows() * o.kv_width()), v(o.rows() * o.turned)};
  }
  static OperandSize chosen(const AttentionDims& d) { return ids(d.batch * d.seq * d.listed_keys()); }
  List index_parts(const IndexDims& d) const { return {v(d.query_elements()), v(d.key_elements()), v(d.rows() * d.heads)}; }
  OperandSize mixed(const RecurrenceDims& d) const { return v(d.rows() * d.mixed()); }
  List recurrence_parts(const RecurrenceDims& d) const {
    return with({mixed(d), v(d.rows() * d.scalars()), v(d.heads), v(d.heads)}, d.rule == RecurrenceRule::mamba2, v(d.heads));
  }
  OperandSize scores(const AttentionDims& d) const { return v(d.batch * d.heads * d.seq * d.key_count()); }
  OperandSize logits(const VocabDims& d) const { return v(d.rows * d.cols); }
  OperandSize tokens(const MoeDims& d) const { return v(d.tokens * d.hidden); }
  OperandSize expert_rows(const MoeDims& d) const { return v(d.rows() * d.hidden); }
  static std::int64_t choices(const MoeDims& d) { return d.tokens * d.top_k; }
  static std::int64_t rows(const auto& o) { return o.rows > 0 ? o.rows : o.batch * o.seq; }

  /// A product that writes its result, or adds it to the last operand.
  OperandSizes added_to(const auto& o, const List& in, std::int64_t elements) const {
    if (!o.accumulate) return {in, {v(elements)}};
    const OperandSize total{elements, o.total};
    return {with(in, true, total), {over(static_cast<int>(in.size()), total)}};
  }
  static List with(List list, bool present, OperandSize last) {
    if (present) list.push_back(last);
    return list;
  }
  static OperandSize over(int input, OperandSize o) {
    o.same_as_input = input;
    return o;
  }
  static OperandSize as_output(int output, OperandSize o) {
    o.same_as_output = output;
    return o;
  }
  [[noreturn]] static OperandSizes communication() { throw ContractError("a backend does not communicate"); }

  DType t_;
};

}  // namespace

OperandSizes operand_sizes(const Op& op, DType dtype) { return std::visit(Sizes(dtype), op); }

}  // namespace tandem::exec
