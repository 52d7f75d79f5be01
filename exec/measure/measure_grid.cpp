#include "exec/measure/measure_grid.hpp"

#include <utility>

#include "exec/measure/grid_sizes.hpp"
#include "models/ops/simulated_only.hpp"

namespace tandem::exec {
namespace {

/// Routing by scores plus a balancing bias, so that keys differ from scores.
constexpr RouterRule kBalancedRouting{.scores = RouterScores::sigmoid, .bias = true};

/// A tag by which the grid of an operation type is chosen.
template <class T>
struct Kind {};

class Grid : GridSizes {
 public:
  Grid(bool quick, DType dtype)
      : GridSizes(quick), dtype_(dtype), narrow_(bits(dtype) == 16), total_(narrow_ ? DType::fp32 : dtype) {}

  std::vector<Op> all() {
    add_kinds(std::make_index_sequence<kOpKinds>{});
    return std::move(ops_);
  }

 private:
  template <std::size_t... I>
  void add_kinds(std::index_sequence<I...>) {
    (add(Kind<std::variant_alternative_t<I, Op>>{}), ...);
  }

  void add(Kind<MatMul>) {
    const Sizes tokens = quick_ ? Sizes{16, 64, 256, 1024} : Sizes{16, 64, 128, 256, 512, 1024, 2048};
    const Sizes widths = quick_ ? Sizes{16, 64, 192, 512} : Sizes{16, 48, 64, 128, 192, 256, 384, 512, 768, 1024};
    for (const auto t : tokens)
      for (const auto a : widths)
        for (const auto b : widths)
          if (t * a * b <= kMostProducts) add_products(t, a, b);
  }
  void add_products(std::int64_t t, std::int64_t a, std::int64_t b) {
    ops_.push_back(MatMul{t, a, b, false, true, true});    // forward
    ops_.push_back(MatMul{t, a, b, false, true, false});   // forward, bias added later
    ops_.push_back(MatMul{t, a, b, false, false, false});  // gradient of the input
    ops_.push_back(MatMul{a, b, t, true, false, false});   // gradient of the weight
    ops_.push_back(MatMul{a, b, t, true, false, false, true, total_});  // the same, added to a total
    ops_.push_back(MatMul{a, b, t, true, false, false, false, DType::fp32, true});  // with the bias gradient
  }

  void add(Kind<Dequantize>) {
    matrices([&](auto r, auto c) { ops_.push_back(Dequantize{(r * c + 63) / 64 * 64, DType::nf4, dtype_}); });
  }
  void add(Kind<BiasGrad>) {
    matrices([&](auto r, auto c) { ops_.push_back(BiasGrad{r, c}); });
  }
  void add(Kind<LayerNorm>) {
    for (const bool rms : {false, true}) matrices([&](auto r, auto c) { ops_.push_back(LayerNorm{r, c, 1e-5, rms}); });
  }
  void add(Kind<LayerNormBackward>) {
    for (const bool rms : {false, true})
      for (const bool residual : {false, true})
        matrices([&](auto r, auto c) { ops_.push_back(LayerNormBackward{r, c, residual, rms}); });
    for (const bool rms : {false, true})
      for (const auto part : {NormPart::input, NormPart::parameters})
        few_matrices([&](auto r, auto c) { ops_.push_back(LayerNormBackward{r, c, false, rms, part}); });
  }
  void add(Kind<BiasDropoutAdd>) {
    for (const double dropout : {0.0, 0.1})
      matrices([&](auto r, auto c) {
        ops_.push_back(BiasDropoutAdd{r, c, dropout, true, DropoutSite::attention_output});
      });
    few_matrices([&](auto r, auto c) {
      ops_.push_back(BiasDropoutAdd{r, c, 0.1, false, DropoutSite::attention_output, false, false});
    });
  }
  void add(Kind<BiasDropoutAddNorm>) {
    for (const bool rms : {false, true})
      for (const double dropout : {0.0, 0.1})
        few_matrices([&](auto r, auto c) {
          ops_.push_back(BiasDropoutAddNorm{r, c, dropout, !rms, DropoutSite::attention_output, false, 1e-5, rms});
        });
  }
  void add(Kind<BiasDropoutAddBackward>) {
    for (const double dropout : {0.0, 0.1})
      matrices([&](auto r, auto c) {
        ops_.push_back(BiasDropoutAddBackward{r, c, dropout, true, DropoutSite::attention_output});
      });
  }

  void add(Kind<Pointwise>) { pointwise<Pointwise>(); }
  void add(Kind<PointwiseBackward>) { pointwise<PointwiseBackward>(); }
  template <class T>
  void pointwise() {
    for (const auto kind : {PointwiseKind::gelu_tanh, PointwiseKind::relu, PointwiseKind::squared_relu, PointwiseKind::tanh})
      for (const auto n : vectors(1 << 22)) ops_.push_back(T{n, kind});
    few_matrices([&](auto r, auto c) { ops_.push_back(T{r * c, PointwiseKind::gelu_tanh, c}); });
  }

  void add(Kind<GatedPointwise>) { gated<GatedPointwise>(); }
  void add(Kind<GatedPointwiseBackward>) { gated<GatedPointwiseBackward>(); }
  template <class T>
  void gated() {
    for (const auto kind : {GateKind::silu, GateKind::gelu_tanh, GateKind::clamped_silu})
      matrices([&](auto r, auto c) { ops_.push_back(T{r, c, kind}); });
    for (const auto part : {GatePart::activation, GatePart::product})
      few_matrices([&](auto r, auto c) { ops_.push_back(T{r, c, GateKind::silu, part}); });
  }
  void add(Kind<SoftCap>) {
    few_matrices([&](auto r, auto c) { ops_.push_back(SoftCap{r * c, 30}); });
  }
  void add(Kind<SoftCapBackward>) {
    few_matrices([&](auto r, auto c) { ops_.push_back(SoftCapBackward{r * c, 30}); });
  }
  void add(Kind<RowGate>) {
    few_matrices([&](auto r, auto c) { ops_.push_back(RowGate{r, c}); });
  }
  void add(Kind<RowGateBackward>) {
    few_matrices([&](auto r, auto c) { ops_.push_back(RowGateBackward{r, c}); });
  }
  void add(Kind<Elementwise>) {
    for (const auto kind : {ElementwiseKind::add, ElementwiseKind::subtract, ElementwiseKind::multiply})
      for (const auto other : {Spread::full, Spread::row, Spread::column})
        few_matrices([&](auto r, auto c) { ops_.push_back(Elementwise{r, c, kind, other}); });
    for (const auto kind : {ElementwiseKind::multiply, ElementwiseKind::square})
      few_matrices([&](auto r, auto c) { ops_.push_back(Elementwise{r, c, kind, Spread::none, 0.5}); });
  }
  void add(Kind<RowReduce>) {
    for (const auto kind : {RowReduceKind::sum, RowReduceKind::inverse_root_of_mean})
      few_matrices([&](auto r, auto c) { ops_.push_back(RowReduce{r, c, kind, 1e-5}); });
  }
  void add(Kind<HeadNorm>) {
    attention([&](auto d) { ops_.push_back(HeadNorm{d, 1e-6}); });
    few_attentions([&](auto d) { ops_.push_back(HeadNorm{d, 1e-6, true}); });
  }
  void add(Kind<HeadNormBackward>) {
    attention([&](auto d) { ops_.push_back(HeadNormBackward{d, 1e-6}); });
    few_attentions([&](auto d) { ops_.push_back(HeadNormBackward{d, 1e-6, true}); });
  }
  void add(Kind<RowNormSums>) {
    few_attentions([&](auto d) { ops_.push_back(RowNormSums{d}); });
  }
  void add(Kind<RowNorm>) {
    few_attentions([&](auto d) { ops_.push_back(RowNorm{d, 1, 1e-6}); });
  }
  void add(Kind<RowNormDots>) {
    few_attentions([&](auto d) { ops_.push_back(RowNormDots{d}); });
  }
  void add(Kind<RowNormBackward>) {
    few_attentions([&](auto d) { ops_.push_back(RowNormBackward{d, 1, 1e-6}); });
  }
  void add(Kind<LatentNorm>) {
    few_matrices([&](auto r, auto c) { ops_.push_back(LatentNorm{r, c, 64, 1e-6}); });
  }
  void add(Kind<LatentNormBackward>) {
    few_matrices([&](auto r, auto c) { ops_.push_back(LatentNormBackward{r, c, 64}); });
  }
  void add(Kind<LatentHeads>) {
    few_attentions([&](auto d) { ops_.push_back(LatentHeads{d, d.head_dim / 2, 1}); });
  }
  void add(Kind<LatentHeadsBackward>) {
    few_attentions([&](auto d) { ops_.push_back(LatentHeadsBackward{d, d.head_dim / 2, 1}); });
  }
  void add(Kind<Rotary>) {
    for (const bool inverse : {false, true})
      attention([&](auto d) { ops_.push_back(Rotary{d, 10000, inverse}); });
    for (const auto part : {RotaryPart::swap, RotaryPart::cosine, RotaryPart::sine, RotaryPart::add})
      few_attentions([&](auto d) {
        ops_.push_back(Rotary{d, 10000, false, RopeScalingKind::none, 1, part, RotaryHeads::queries});
      });
  }

  void add(Kind<AttentionScores>) {
    attention([&](auto d) { ops_.push_back(AttentionScores{d}); });
  }
  void add(Kind<AttentionSoftmax>) {
    for (const double dropout : {0.0, 0.1})
      attention([&](auto d) { ops_.push_back(AttentionSoftmax{d, dropout, false}); });
    attention([&](auto d) { if (d.batch > 1) ops_.push_back(AttentionSoftmax{d, 0, true}); });
    few_attentions([&](auto d) { ops_.push_back(AttentionSoftmax{both_ways(d), 0, false}); });
    few_attentions([&](auto d) { ops_.push_back(AttentionSoftmax{both_ways(d), 0, false, 32}); });
    for (const auto part : {SoftmaxPart::mask, SoftmaxPart::softmax, SoftmaxPart::dropout})
      few_attentions([&](auto d) {
        const double dropout = part == SoftmaxPart::dropout ? 0.1 : 0;
        ops_.push_back(AttentionSoftmax{d, dropout, false, 0, DropoutSite::attention, part});
      });
  }
  void add(Kind<AttentionContext>) {
    attention([&](auto d) { ops_.push_back(AttentionContext{d}); });
  }
  void add(Kind<AttentionContextBackward>) {
    attention([&](auto d) { ops_.push_back(AttentionContextBackward{d}); });
  }
  void add(Kind<AttentionSoftmaxBackward>) {
    for (const double dropout : {0.0, 0.1})
      attention([&](auto d) { ops_.push_back(AttentionSoftmaxBackward{d, dropout}); });
    few_attentions([&](auto d) { ops_.push_back(AttentionSoftmaxBackward{both_ways(d), 0}); });
    few_attentions([&](auto d) { ops_.push_back(AttentionSoftmaxBackward{both_ways(d), 0, 32}); });
    few_attentions([&](auto d) {
      ops_.push_back(AttentionSoftmaxBackward{d, 0.1, 0, DropoutSite::attention, SoftmaxPart::dropout});
    });
  }
  void add(Kind<AttentionScoresBackward>) {
    attention([&](auto d) { ops_.push_back(AttentionScoresBackward{d}); });
  }

  void add(Kind<Embedding>) {
    for (const auto v : Sizes{64, 256, 1024})
      matrices([&](auto r, auto c) { ops_.push_back(Embedding{r, c, v}); });
  }
  void add(Kind<EmbeddingBackward>) {
    for (const auto v : Sizes{64, 256, 1024})
      matrices([&](auto r, auto c) { ops_.push_back(EmbeddingBackward{r, c, v}); });
  }
  void add(Kind<PositionDropout>) {
    for (const double dropout : {0.0, 0.1})
      sequences([&](auto b, auto s, auto h) { ops_.push_back(PositionDropout{b, s, h, dropout, true, false, b * s}); });
  }
  void add(Kind<PositionDropoutBackward>) {
    for (const double dropout : {0.0, 0.1})
      sequences([&](auto b, auto s, auto h) { ops_.push_back(PositionDropoutBackward{b, s, h, s, dropout, true, false, b * s}); });
  }

  void add(Kind<VocabMax>) {
    matrices([&](auto r, auto c) { ops_.push_back(VocabMax{{r, c, c}}); });
  }
  void add(Kind<VocabExpSum>) {
    matrices([&](auto r, auto c) { ops_.push_back(VocabExpSum{{r, c, c}}); });
  }
  void add(Kind<CrossEntropy>) {
    for (const bool first : {true, false})
      matrices([&](auto r, auto c) { ops_.push_back(CrossEntropy{{r, c, c}, r, first}); });
    few_matrices([&](auto r, auto c) { ops_.push_back(CrossEntropy{{r, c, c}, r, false, true}); });
  }

  void add(Kind<Accumulate>) {
    const std::vector<DType> sources = narrow_ ? std::vector{dtype_, total_} : std::vector{dtype_};
    for (const DType source : sources)
      for (const bool overwrite : {false, true})
        for (const auto n : vectors(1 << 23)) ops_.push_back(Accumulate{n, source, total_, overwrite});
  }
  void add(Kind<GradNorm>) {
    for (const auto n : vectors(1 << 23)) ops_.push_back(GradNorm{n, total_});
  }
  void add(Kind<ClipCoefficient>) { ops_.push_back(ClipCoefficient{1.0}); }
  void add(Kind<AdamW>) {
    for (const auto n : vectors(1 << 23))
      ops_.push_back(AdamW{n, 0.9, 0.95, 1e-8, 0.1, narrow_, total_, dtype_, total_});
  }

  void add(Kind<FlashAttention>) {
    for (const double dropout : {0.0, 0.1})
      few_attentions([&](auto d) { ops_.push_back(FlashAttention{d, dropout, false}); });
    windows([&](auto d) { ops_.push_back(FlashAttention{d, 0, false}); });
    few_attentions([&](auto d) { ops_.push_back(with_sinks(FlashAttention{d, 0, false})); });
    few_attentions([&](auto d) { ops_.push_back(with_cap(FlashAttention{d, 0, false})); });
    windows([&](auto d) { ops_.push_back(with_list(FlashAttention{d, 0, false})); });
  }
  void add(Kind<FlashAttentionBackward>) {
    for (const double dropout : {0.0, 0.1})
      few_attentions([&](auto d) { ops_.push_back(FlashAttentionBackward{d, dropout, false}); });
    windows([&](auto d) { ops_.push_back(FlashAttentionBackward{d, 0, false}); });
    few_attentions([&](auto d) { ops_.push_back(with_sinks(FlashAttentionBackward{d, 0, false})); });
    few_attentions([&](auto d) { ops_.push_back(with_cap(FlashAttentionBackward{d, 0, false})); });
    windows([&](auto d) { ops_.push_back(with_list(FlashAttentionBackward{d, 0, false})); });
  }
  void add(Kind<SplitKv>) {
    few_attentions([&](auto d) { ops_.push_back(SplitKv{d.batch * d.seq, d}); });
  }
  void add(Kind<MergeKv>) {
    few_attentions([&](auto d) { ops_.push_back(MergeKv{d.batch * d.seq, d}); });
  }
  void add(Kind<PackColumns>) {
    for (const std::int64_t parts : {2, 4}) few_matrices([&](auto r, auto c) { ops_.push_back(PackColumns{r, c, parts}); });
  }
  void add(Kind<UnpackColumns>) {
    for (const std::int64_t parts : {2, 4}) few_matrices([&](auto r, auto c) { ops_.push_back(UnpackColumns{r, c, parts}); });
  }
  void add(Kind<OrderRows>) {
    for (const std::int64_t shards : {2, 4}) few_matrices([&](auto r, auto c) { ops_.push_back(OrderRows{1, r, c, shards}); });
  }
  void add(Kind<TakePart>) {
    for (const std::int64_t parts : {2, 4}) few_matrices([&](auto r, auto c) { ops_.push_back(TakePart{r, c, parts}); });
  }
  void add(Kind<PlacePart>) {
    for (const std::int64_t parts : {2, 4}) few_matrices([&](auto r, auto c) { ops_.push_back(PlacePart{r, c, parts}); });
  }
  void add(Kind<TakeColumns>) {
    few_matrices([&](auto r, auto c) { ops_.push_back(TakeColumns{r, c, 0, c / 2}); });
  }
  void add(Kind<AddColumns>) {
    few_matrices([&](auto r, auto c) { ops_.push_back(AddColumns{r, c, 0, c / 2}); });
  }
  void add(Kind<TakeFirst>) {
    few_matrices([&](auto r, auto c) { ops_.push_back(TakeFirst{r / 8, 8, c}); });
  }
  void add(Kind<TakeFirstBackward>) {
    few_matrices([&](auto r, auto c) { ops_.push_back(TakeFirstBackward{r / 8, 8, c}); });
  }
  void add(Kind<Fill>) {
    for (const auto n : vectors(1 << 23)) ops_.push_back(Fill{n, dtype_});
  }

  void add(Kind<TopKRouter>) {
    experts([&](auto d) {
      ops_.push_back(TopKRouter{d});
      ops_.push_back(TopKRouter{d, kBalancedRouting});
    });
  }
  void add(Kind<TopKRouterBackward>) {
    experts([&](auto d) {
      ops_.push_back(TopKRouterBackward{d, 0.01, 1});
      ops_.push_back(TopKRouterBackward{d, 0.01, 1, kBalancedRouting});
    });
  }
  void add(Kind<BalanceGrad>) {
    experts([&](auto d) { ops_.push_back(BalanceGrad{d, 1}); });
  }
  void add(Kind<ExpertSlots>) {
    experts([&](MoeDims d) {
      if (d.capacity > 0) return;
      d.room = d.rows();
      d.here = d.experts / 2;
      ops_.push_back(ExpertSlots{d, 2});
    });
  }
  void add(Kind<MoeDispatch>) {
    experts([&](auto d) { ops_.push_back(MoeDispatch{d}); });
  }
  void add(Kind<MoeDispatchBackward>) {
    experts([&](auto d) { ops_.push_back(MoeDispatchBackward{d}); });
  }
  void add(Kind<MoeCombine>) {
    experts([&](auto d) { ops_.push_back(MoeCombine{d}); });
  }
  void add(Kind<MoeCombineBackward>) {
    experts([&](auto d) { ops_.push_back(MoeCombineBackward{d}); });
  }
  void add(Kind<GroupedMatMul>) {
    for (const bool trans_b : {false, true})
      groups([&](auto groups, auto experts, auto m, auto n, auto k, bool ragged) {
        ops_.push_back(GroupedMatMul{groups, experts, m, n, k, trans_b, ragged});
      });
  }
  void add(Kind<GroupedWeightGrad>) {
    groups([&](auto groups, auto experts, auto m, auto n, auto k, bool ragged) {
      ops_.push_back(GroupedWeightGrad{groups, experts, m, n, k, ragged});
      ops_.push_back(GroupedWeightGrad{groups, experts, m, n, k, ragged, true, total_});
    });
  }
  void add(Kind<GroupedBias>) {
    biases([&](auto groups, auto experts, auto m, auto n, bool ragged) {
      ops_.push_back(GroupedBias{groups, experts, m, n, false, ragged});
    });
  }
  void add(Kind<GroupedBiasGrad>) {
    biases([&](auto groups, auto experts, auto m, auto n, bool ragged) {
      ops_.push_back(GroupedBiasGrad{groups, experts, m, n, ragged});
    });
  }

  void add(Kind<Sgd>) {
    for (const double momentum : {0.0, 0.9})
      for (const auto n : vectors(1 << 23)) ops_.push_back(Sgd{n, momentum, 0.1, narrow_, total_, dtype_, total_});
  }
  void add(Kind<Muon>) {
    const DType iteration = dtype_ == DType::fp16 ? DType::fp32 : dtype_;
    for (const std::int64_t rows : quick_ ? Sizes{64, 256} : Sizes{64, 128, 256, 512, 1024})
      for (const std::int64_t cols : quick_ ? Sizes{64, 256} : Sizes{64, 128, 256, 512, 1024})
        ops_.push_back(Muon{1, rows, cols, rows, cols, 5, 0.95, true, 0.2, 0.1, narrow_, total_, dtype_, total_, iteration});
  }
  void add(Kind<TensorNorms>) {
    for (const auto n : vectors(1 << 23)) ops_.push_back(TensorNorms{n, 64, total_});
  }
  void add(Kind<LayerwiseMoments>) { layerwise<LayerwiseMoments>(); }
  void add(Kind<LayerwiseApply>) { layerwise<LayerwiseApply>(); }
  template <class T>
  void layerwise() {
    for (const auto kind : {LayerwiseKind::lamb, LayerwiseKind::lans})
      for (const auto n : vectors(1 << 23)) ops_.push_back(T{kind, n, 64, 0.9, 0.95, 1e-8, 0.1, narrow_, total_, dtype_, total_});
  }

  void add(Kind<IndexTopK>) {
    indexers([&](auto d) { ops_.push_back(IndexTopK{d}); });
  }
  void add(Kind<IndexTarget>) {
    windows([&](auto d) { ops_.push_back(IndexTarget{d}); });
  }
  void add(Kind<IndexTopKBackward>) {
    indexers([&](auto d) { ops_.push_back(IndexTopKBackward{d}); });
  }

  void add(Kind<ShortConv>) {
    recurrences([&](auto d) { ops_.push_back(ShortConv{d, 4, false}); });
  }
  void add(Kind<ShortConvBackward>) {
    recurrences([&](auto d) { ops_.push_back(ShortConvBackward{d, 4, false}); });
  }
  void add(Kind<Recurrence>) {
    recurrences([&](auto d) { ops_.push_back(Recurrence{d}); });
  }
  void add(Kind<RecurrenceBackward>) {
    recurrences([&](auto d) { ops_.push_back(RecurrenceBackward{d}); });
  }
  void add(Kind<GatedNorm>) {
    gated_norms([&](const GatedNorm& o) { ops_.push_back(o); });
  }
  void add(Kind<GatedNormBackward>) {
    gated_norms([&](const GatedNorm& o) {
      ops_.push_back(GatedNormBackward{o.rows, o.parts, o.cols, o.same_weights, o.gate_first});
    });
  }
  void add(Kind<SigmoidGate>) {
    matrices([&](auto r, auto c) { ops_.push_back(SigmoidGate{r * c}); });
  }
  void add(Kind<SigmoidGateBackward>) {
    matrices([&](auto r, auto c) { ops_.push_back(SigmoidGateBackward{r * c}); });
  }

  template <SimulatedOnly O>
  void add(Kind<O>) {}

  // Communication is timed elsewhere, and the CPU has no second memory to copy to.
  void add(Kind<HostCopy>) {}
  void add(Kind<Collective>) {}
  void add(Kind<Send>) {}
  void add(Kind<Recv>) {}

  static constexpr std::int64_t kMostProducts = std::int64_t{1} << 28;
  DType dtype_;
  bool narrow_;   ///< weights are narrow, with wide master copies; gradients and states are wide
  DType total_;   ///< type of gradients and states
  std::vector<Op> ops_;
};

}  // namespace

std::vector<Op> measured_operations(bool quick, DType dtype) { return Grid(quick, dtype).all(); }

}  // namespace tandem::exec
