#include "exec/measure_grid.hpp"

#include <utility>

namespace tandem::exec {
namespace {

using Sizes = std::vector<std::int64_t>;

/// A kind of operation, to choose its grid by.
template <class T>
struct Kind {};

class Grid {
 public:
  Grid(bool quick, DType dtype) : quick_(quick), dtype_(dtype) {}

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
  }
  void add(Kind<BiasDropoutAdd>) {
    for (const double dropout : {0.0, 0.1})
      matrices([&](auto r, auto c) {
        ops_.push_back(BiasDropoutAdd{r, c, dropout, true, DropoutSite::attention_output});
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
    for (const auto kind : {PointwiseKind::gelu_tanh, PointwiseKind::relu, PointwiseKind::squared_relu})
      for (const auto n : vectors(1 << 22)) ops_.push_back(T{n, kind});
  }

  void add(Kind<GatedPointwise>) { gated<GatedPointwise>(); }
  void add(Kind<GatedPointwiseBackward>) { gated<GatedPointwiseBackward>(); }
  template <class T>
  void gated() {
    for (const auto kind : {GateKind::silu, GateKind::gelu_tanh})
      matrices([&](auto r, auto c) { ops_.push_back(T{r, c, kind}); });
  }
  void add(Kind<Rotary>) {
    for (const bool inverse : {false, true})
      attention([&](auto d) { ops_.push_back(Rotary{d, 10000, inverse}); });
  }

  void add(Kind<AttentionScores>) {
    attention([&](auto d) { ops_.push_back(AttentionScores{d}); });
  }
  void add(Kind<AttentionSoftmax>) {
    for (const double dropout : {0.0, 0.1})
      attention([&](auto d) { ops_.push_back(AttentionSoftmax{d, dropout, false}); });
    attention([&](auto d) { if (d.batch > 1) ops_.push_back(AttentionSoftmax{d, 0, true}); });
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
  }

  void add(Kind<Accumulate>) {
    for (const auto n : vectors(1 << 23)) ops_.push_back(Accumulate{n, dtype_, dtype_});
  }
  void add(Kind<GradNorm>) {
    for (const auto n : vectors(1 << 23)) ops_.push_back(GradNorm{n, dtype_});
  }
  void add(Kind<ClipCoefficient>) { ops_.push_back(ClipCoefficient{1.0}); }
  void add(Kind<AdamW>) {
    for (const auto n : vectors(1 << 23))
      ops_.push_back(AdamW{n, 0.9, 0.95, 1e-8, 0.1, false, dtype_, dtype_, dtype_});
  }

  // No kernels yet.
  void add(Kind<FlashAttention>) {}
  void add(Kind<FlashAttentionBackward>) {}
  void add(Kind<SplitKv>) {}
  void add(Kind<MergeKv>) {}
  void add(Kind<PackColumns>) {}
  void add(Kind<UnpackColumns>) {}
  void add(Kind<TakeFirst>) {}
  void add(Kind<TakeFirstBackward>) {}
  void add(Kind<Fill>) {}
  void add(Kind<TopKRouter>) {}
  void add(Kind<TopKRouterBackward>) {}
  void add(Kind<MoeDispatch>) {}
  void add(Kind<MoeDispatchBackward>) {}
  void add(Kind<MoeCombine>) {}
  void add(Kind<MoeCombineBackward>) {}
  void add(Kind<GroupedMatMul>) {}
  void add(Kind<GroupedWeightGrad>) {}
  void add(Kind<GroupedBias>) {}
  void add(Kind<GroupedBiasGrad>) {}
  void add(Kind<Sgd>) {}
  void add(Kind<TensorNorms>) {}
  void add(Kind<LayerwiseMoments>) {}
  void add(Kind<LayerwiseApply>) {}

  // Communication is timed by itself, and a CPU has no other memory to copy to.
  void add(Kind<HostCopy>) {}
  void add(Kind<Collective>) {}
  void add(Kind<Send>) {}
  void add(Kind<Recv>) {}

  template <class F>
  void matrices(F f) {
    const Sizes rows = quick_ ? Sizes{32, 256, 2048} : Sizes{16, 64, 256, 1024, 4096};
    const Sizes cols = quick_ ? Sizes{32, 192, 1024} : Sizes{16, 48, 128, 256, 768, 2048};
    for (const auto r : rows)
      for (const auto c : cols)
        if (r * c <= kMostElements) f(r, c);
  }

  template <class F>
  void attention(F f) {
    const Sizes seqs = quick_ ? Sizes{32, 128, 256} : Sizes{16, 32, 64, 128, 256, 512};
    const Sizes dims = quick_ ? Sizes{16, 64} : Sizes{8, 16, 32, 64, 128};
    for (const auto& [batch, heads] : {std::pair{1, 2}, {2, 2}, {1, 8}, {4, 4}, {8, 8}})
      for (const auto s : seqs)
        for (const auto d : dims)
          if (batch * heads * s * s <= kMostElements) f(AttentionDims{batch, heads, s, d});
  }

  template <class F>
  void sequences(F f) {
    for (const std::int64_t b : {1, 4, 16})
      for (const std::int64_t s : {32, 128, 512})
        for (const std::int64_t h : {32, 128, 512})
          if (b * s * h <= kMostElements) f(b, s, h);
  }

  Sizes vectors(std::int64_t largest) const {
    Sizes sizes;
    for (std::int64_t n = 256; n <= largest; n *= quick_ ? 8 : 2) sizes.push_back(n);
    return sizes;
  }

  static constexpr std::int64_t kMostProducts = std::int64_t{1} << 28, kMostElements = std::int64_t{1} << 21;
  bool quick_;
  DType dtype_;
  std::vector<Op> ops_;
};

}  // namespace

std::vector<Op> measured_operations(bool quick, DType dtype) { return Grid(quick, dtype).all(); }

}  // namespace tandem::exec
