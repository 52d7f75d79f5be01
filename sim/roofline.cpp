#include "sim/roofline.hpp"

#include <algorithm>
#include <initializer_list>

#include "models/base/error.hpp"
#include "sim/matmul_time.hpp"

namespace tandem::sim {
namespace {

bool on_matrix_engine(DType t) { return t != DType::fp32 && t != DType::fp64 && t != DType::int32 && t != DType::int64; }

FlopRate peak_of(const Device& device, DType compute) {
  const auto found = device.peak.find(compute);
  if (found != device.peak.end()) return found->second;
  std::string known;
  for (const auto& [type, rate] : device.peak) known += (known.empty() ? "" : ", ") + std::string(name(type));
  throw InfeasibleError(Problem{"", "training.dtypes.compute", std::string(name(compute)),
                                "there is no published rate of " + device.name + " for it", "use " + known});
}

class Roofline {
 public:
  Roofline(DType compute, const Device& device, const Calibration& calibration)
      : compute_(compute), device_(device), calibration_(calibration),
        memory_rate_(device.memory_bandwidth.bytes_per_second() * calibration.memory_share) {}

  double operator()(const MatMul& o) const { return products(o, {{1, o.m, o.n, o.k}}); }
  double operator()(const AttentionScores& o) const { return products(o, {queries_by_keys(o.dims)}); }
  double operator()(const AttentionContext& o) const { return products(o, {scores_by_values(o.dims)}); }
  double operator()(const AttentionContextBackward& o) const {
    return products(o, {queries_by_keys(o.dims), scores_by_values(o.dims)});
  }
  double operator()(const AttentionScoresBackward& o) const {
    return products(o, {scores_by_values(o.dims), scores_by_values(o.dims)});
  }
  double operator()(const FlashAttention& o) const {
    return flash(o, o.dims, {queries_by_keys(o.dims), scores_by_values(o.dims)});
  }
  double operator()(const FlashAttentionBackward& o) const {
    const Gemm wide = queries_by_keys(o.dims), narrow = scores_by_values(o.dims);
    return flash(o, o.dims, {wide, wide, narrow, narrow, narrow});
  }
  double operator()(const GroupedMatMul& o) const { return one_kernel(o, {grouped(o, o.n, o.k)}); }
  double operator()(const GroupedWeightGrad& o) const {
    const Gemm rows = grouped(o, o.n, o.k);
    return one_kernel(o, {{rows.batch, o.n, o.k, rows.m}});
  }
  double operator()(const GroupedBias& o) const { return stream(o); }
  double operator()(const GroupedBiasGrad& o) const { return stream(o); }
  double operator()(const BiasGrad& o) const { return stream(o); }
  double operator()(const LayerNorm& o) const { return stream(o); }
  double operator()(const LayerNormBackward& o) const { return stream(o); }
  double operator()(const Pointwise& o) const { return stream(o); }
  double operator()(const PointwiseBackward& o) const { return stream(o); }
  double operator()(const GatedPointwise& o) const { return stream(o); }
  double operator()(const GatedPointwiseBackward& o) const { return stream(o); }
  double operator()(const Elementwise& o) const { return stream(o); }
  double operator()(const RowReduce& o) const { return stream(o); }
  double operator()(const BiasDropoutAddNorm& o) const { return stream(o); }
  double operator()(const Rotary& o) const { return stream(o); }
  double operator()(const AttentionSoftmax& o) const { return stream(o); }
  double operator()(const AttentionSoftmaxBackward& o) const { return stream(o); }
  double operator()(const SplitKv& o) const { return stream(o); }
  double operator()(const MergeKv& o) const { return stream(o); }
  double operator()(const PackColumns& o) const { return stream(o); }
  double operator()(const UnpackColumns& o) const { return stream(o); }
  double operator()(const BiasDropoutAdd& o) const { return stream(o); }
  double operator()(const BiasDropoutAddBackward& o) const { return stream(o); }
  double operator()(const Embedding& o) const { return stream(o); }
  double operator()(const EmbeddingBackward& o) const { return stream(o); }
  double operator()(const PositionDropout& o) const { return stream(o); }
  double operator()(const PositionDropoutBackward& o) const { return stream(o); }
  double operator()(const TakeFirst& o) const { return stream(o); }
  double operator()(const TakeFirstBackward& o) const { return stream(o); }
  double operator()(const VocabMax& o) const { return stream(o); }
  double operator()(const VocabExpSum& o) const { return stream(o); }
  double operator()(const CrossEntropy& o) const { return stream(o); }
  double operator()(const Accumulate& o) const { return stream(o); }
  double operator()(const Fill& o) const { return stream(o); }
  double operator()(const TopKRouter& o) const { return stream(o); }
  double operator()(const TopKRouterBackward& o) const { return stream(o); }
  double operator()(const MoeDispatch& o) const { return stream(o); }
  double operator()(const MoeDispatchBackward& o) const { return stream(o); }
  double operator()(const MoeCombine& o) const { return stream(o); }
  double operator()(const MoeCombineBackward& o) const { return stream(o); }
  double operator()(const GradNorm& o) const { return stream(o); }
  double operator()(const ClipCoefficient& o) const { return stream(o); }
  double operator()(const AdamW& o) const { return stream(o); }
  double operator()(const Sgd& o) const { return stream(o); }
  double operator()(const TensorNorms& o) const { return stream(o); }
  double operator()(const LayerwiseMoments& o) const { return stream(o); }
  double operator()(const LayerwiseApply& o) const { return stream(o); }
  double operator()(const HostCopy& o) const {
    const double rate = device_.host_link.bytes_per_second();
    if (rate <= 0)
      throw InfeasibleError(Problem{"", "parallel.offload", "true",
                                    "there is no published bandwidth between " + device_.name + " and its host",
                                    "switch offloading off, or give the node host_link_bytes_per_s"});
    return static_cast<double>(bytes_of(o.dtype, o.elements).count()) / rate;
  }
  double operator()(const Collective&) const { return communication(); }
  double operator()(const Send&) const { return communication(); }
  double operator()(const Recv&) const { return communication(); }

 private:
  /// [seq, head_dim] by [head_dim, keys] for every head.
  static Gemm queries_by_keys(const AttentionDims& d) { return {d.batch * d.heads, d.seq, d.key_count(), d.head_dim}; }
  /// [seq, keys] by [keys, head_dim] for every head.
  static Gemm scores_by_values(const AttentionDims& d) { return {d.batch * d.heads, d.seq, d.head_dim, d.key_count()}; }
  /// The groups' products; ragged ones as if every expert had as many rows.
  static Gemm grouped(const auto& o, std::int64_t n, std::int64_t k) {
    return o.ragged ? Gemm{o.experts, (o.m + o.experts - 1) / o.experts, n, k} : Gemm{o.groups, o.m, n, k};
  }

  using Gemms = std::initializer_list<Gemm>;

  double arithmetic_seconds(const Gemms& gemms) const {
    const MatMulEngine engine{peak_of(device_, compute_).flops_per_second(), device_.vector_rate.flops_per_second(),
                              memory_rate_, device_.compute_units, bits(compute_), on_matrix_engine(compute_)};
    double seconds = 0;
    for (const Gemm& g : gemms) seconds += matmul_seconds(g, calibration_.matmul, engine);
    return seconds;
  }
  double products(const Op& op, const Gemms& gemms) const {
    return std::max(arithmetic_seconds(gemms), traffic_seconds(op)) + kernels(static_cast<std::int64_t>(gemms.size()));
  }
  double one_kernel(const Op& op, const Gemms& gemms) const {
    return std::max(arithmetic_seconds(gemms), traffic_seconds(op)) + kernels(1);
  }
  /// One kernel that does of its products only the pairs that are needed.
  double flash(const Op& op, const AttentionDims& d, const Gemms& gemms) const {
    const double all = 2.0 * static_cast<double>(d.batch * d.heads) * static_cast<double>(d.seq) *
                       static_cast<double>(d.key_count() * d.head_dim) * static_cast<double>(gemms.size());
    const double share = static_cast<double>(matrix_flops(op).count()) / std::max(all, 1.0);
    return std::max(share * arithmetic_seconds(gemms), traffic_seconds(op)) + kernels(1);
  }
  double stream(const Op& op) const {
    const double arithmetic = static_cast<double>(vector_flops(op).count()) / device_.vector_rate.flops_per_second();
    return std::max(arithmetic, traffic_seconds(op)) + kernels(1);
  }
  double traffic_seconds(const Op& op) const { return static_cast<double>(traffic(op, compute_).count()) / memory_rate_; }
  double kernels(std::int64_t n) const { return (calibration_.kernel * n).seconds(); }
  [[noreturn]] static double communication() { throw ContractError("communication has no cost on one device"); }

  DType compute_;
  const Device& device_;
  const Calibration& calibration_;
  double memory_rate_;
};

}  // namespace

double roofline_seconds(const Op& op, DType compute, const Device& device, const Calibration& calibration) {
  return std::visit(Roofline(compute, device, calibration), op);
}

}  // namespace tandem::sim
