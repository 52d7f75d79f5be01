#include "models/ops/window.hpp"
#include "sim/cost/roofline.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "models/base/error.hpp"
#include "sim/cost/matmul_time.hpp"

namespace tandem::sim {
namespace {

bool on_matrix_engine(DType t) { return t != DType::fp32 && t != DType::fp64 && t != DType::int32 && t != DType::int64; }

/// Remedy for a processor: it can be measured in 16-bit types without a published rate.
std::string measurement(const Device& device, DType compute) {
  if (device.generation != "cpu" || (compute != DType::bf16 && compute != DType::fp16)) return "";
  return ", or measure this machine: tandem measure --precision fp32," + std::string(name(compute)) + " -o cpu.json, then --cost-table cpu.json";
}

FlopRate peak_of(const Device& device, DType compute) {
  const auto found = device.peak.find(compute);
  if (found != device.peak.end()) return found->second;
  std::string known;
  for (const auto& [type, rate] : device.peak) known += (known.empty() ? "" : ", ") + std::string(name(type));
  throw InfeasibleError(Problem{"", "training.dtypes.compute", std::string(name(compute)),
                                "there is no published rate of " + device.name + " for it",
                                "use " + known + " (training.precision sets it)" + measurement(device, compute)});
}

/// FLOP/s in 16-bit types; 0: the device has none.
double matrix_rate(const Device& device) {
  double rate = 0;
  for (const DType t : {DType::fp16, DType::bf16})
    if (const auto found = device.peak.find(t); found != device.peak.end()) rate = std::max(rate, found->second.flops_per_second());
  return rate;
}

class Roofline {
 public:
  Roofline(DType compute, const Device& device, const Calibration& calibration)
      : compute_(compute), device_(device), calibration_(calibration),
        memory_rate_(device.memory_bandwidth.bytes_per_second() * calibration.memory_share) {}

  double operator()(const MatMul& o) const {
    const double product = products(o, {{1, o.m, o.n, o.k, o.trans_a}}) + (o.trans_a ? 0 : cast_seconds(o.m * o.k));
    return product + sum_seconds(o, o.m * o.n) + beside_seconds(o);
  }
  double operator()(const AttentionScores& o) const { return products(o, {queries_by_keys(o.dims)}); }
  double operator()(const AttentionContext& o) const { return products(o, {scores_by_values(o.dims)}); }
  double operator()(const AttentionContextBackward& o) const {
    return products(o, {contexts_by_values(o.dims), scores_by_values(o.dims)});
  }
  double operator()(const AttentionScoresBackward& o) const {
    return products(o, {scores_by_keys(o.dims), scores_by_keys(o.dims)});
  }
  double operator()(const FlashAttention& o) const {
    return flash(o, false);
  }
  double operator()(const FlashAttentionBackward& o) const {
    return flash(o, true);
  }
  double operator()(const GroupedMatMul& o) const {
    return one_kernel(o, {grouped(o, o.n, o.k)}) + row_cast_seconds(o.rows() * o.k);
  }
  double operator()(const GroupedWeightGrad& o) const {
    const Gemm rows = grouped(o, o.n, o.k);
    return one_kernel(o, {{rows.batch, o.n, o.k, rows.m, true}}) + sum_seconds(o, o.experts * o.n * o.k);
  }
  double operator()(const GroupedBias& o) const { return activation_kernel(o); }
  double operator()(const GroupedBiasGrad& o) const { return stream(o); }
  double operator()(const Dequantize& o) const { return stream(o); }
  double operator()(const BiasGrad& o) const { return stream(o); }
  double operator()(const LayerNorm& o) const { return activation_kernel(o); }
  double operator()(const LayerNormBackward& o) const { return activation_kernel(o); }
  double operator()(const Pointwise& o) const { return activation_kernel(o); }
  double operator()(const PointwiseBackward& o) const { return activation_kernel(o); }
  double operator()(const GatedPointwise& o) const { return activation_kernel(o); }
  double operator()(const GatedPointwiseBackward& o) const { return activation_kernel(o); }
  double operator()(const SoftCap& o) const { return activation_kernel(o); }
  double operator()(const SoftCapBackward& o) const { return activation_kernel(o); }
  double operator()(const RowGate& o) const { return activation_kernel(o); }
  double operator()(const RowGateBackward& o) const { return activation_kernel(o); }
  double operator()(const Elementwise& o) const { return activation_kernel(o); }
  double operator()(const RowReduce& o) const { return activation_kernel(o); }
  double operator()(const BiasDropoutAddNorm& o) const { return activation_kernel(o); }
  double operator()(const HeadNorm& o) const { return activation_kernel(o); }
  double operator()(const HeadNormBackward& o) const { return activation_kernel(o); }
  double operator()(const RowNormSums& o) const { return activation_kernel(o); }
  double operator()(const RowNorm& o) const { return activation_kernel(o); }
  double operator()(const RowNormDots& o) const { return activation_kernel(o); }
  double operator()(const RowNormBackward& o) const { return activation_kernel(o); }
  double operator()(const LatentNorm& o) const { return activation_kernel(o); }
  double operator()(const LatentNormBackward& o) const { return activation_kernel(o); }
  double operator()(const LatentHeads& o) const { return activation_kernel(o); }
  double operator()(const LatentHeadsBackward& o) const { return activation_kernel(o); }
  double operator()(const IndexTopK& o) const { return over_pairs(o, index_heads(o.dims), false); }
  double operator()(const IndexTarget& o) const { return over_pairs(o, without_window(o.dims), false); }
  double operator()(const IndexTopKBackward& o) const { return over_pairs(o, index_heads(o.dims), true); }
  double operator()(const ShortConv& o) const { return activation_kernel(o); }
  double operator()(const ShortConvBackward& o) const { return activation_kernel(o); }
  double operator()(const Recurrence& o) const { return in_chunks(o, false); }
  double operator()(const RecurrenceBackward& o) const { return in_chunks(o, true); }
  double operator()(const GatedNorm& o) const { return activation_kernel(o); }
  double operator()(const GatedNormBackward& o) const { return activation_kernel(o); }
  double operator()(const SigmoidGate& o) const { return activation_kernel(o); }
  double operator()(const SigmoidGateBackward& o) const { return activation_kernel(o); }
  double operator()(const IndexBlocks& o) const { return over_pairs(o, index_heads(o.dims), false); }
  double operator()(const IndexBlocksBackward& o) const { return over_pairs(o, without_window(o.attention), true); }
  double operator()(const Rotary& o) const { return activation_kernel(o); }
  double operator()(const AttentionSoftmax& o) const { return activation_kernel(o); }
  double operator()(const AttentionSoftmaxBackward& o) const { return activation_kernel(o); }
  double operator()(const SplitKv& o) const { return activation_kernel(o); }
  double operator()(const MergeKv& o) const { return activation_kernel(o); }
  double operator()(const PackColumns& o) const { return activation_kernel(o); }
  double operator()(const UnpackColumns& o) const { return activation_kernel(o); }
  double operator()(const TakeColumns& o) const { return activation_kernel(o); }
  double operator()(const AddColumns& o) const { return activation_kernel(o); }
  double operator()(const OrderRows& o) const { return activation_kernel(o); }
  double operator()(const TakePart& o) const { return activation_kernel(o); }
  double operator()(const PlacePart& o) const { return activation_kernel(o); }
  double operator()(const BiasDropoutAdd& o) const { return activation_kernel(o); }
  double operator()(const BiasDropoutAddBackward& o) const { return activation_kernel(o); }
  double operator()(const Embedding& o) const { return stream(o); }
  double operator()(const EmbeddingBackward& o) const { return stream(o); }
  double operator()(const PositionDropout& o) const { return activation_kernel(o); }
  double operator()(const PositionDropoutBackward& o) const { return activation_kernel(o); }
  double operator()(const TakeFirst& o) const { return stream(o); }
  double operator()(const TakeFirstBackward& o) const { return stream(o); }
  // Logits of a narrower type are copied to fp32, and subtraction, exponential, sum and quotient are kernels of their own, as
  // in Megatron-LM's vocabulary-parallel loss; PyTorch's log_softmax and nll_loss with their copies move as much (38 bytes).
  double operator()(const VocabMax& o) const { return passes(o, o.dims, 2); }
  double operator()(const VocabExpSum& o) const { return passes(o, o.dims, 3); }
  double operator()(const CrossEntropy& o) const { return passes(o, o.dims, 1); }
  double operator()(const Accumulate& o) const { return stream(o); }
  double operator()(const Fill& o) const { return stream(o); }
  double operator()(const TopKRouter& o) const { return activation_kernel(o); }
  double operator()(const TopKRouterBackward& o) const { return activation_kernel(o); }
  double operator()(const BalanceGrad& o) const { return activation_kernel(o); }
  double operator()(const ExpertSlots& o) const { return activation_kernel(o); }
  double operator()(const MoeDispatch& o) const { return activation_kernel(o); }
  double operator()(const MoeDispatchBackward& o) const { return activation_kernel(o); }
  double operator()(const MoeCombine& o) const { return activation_kernel(o); }
  double operator()(const MoeCombineBackward& o) const { return activation_kernel(o); }
  double operator()(const GradNorm& o) const { return stream(o); }
  double operator()(const ClipCoefficient& o) const { return stream(o); }
  double operator()(const AdamW& o) const { return stream(o); }
  double operator()(const Sgd& o) const { return stream(o); }
  /// Each matrix has its own products, and six kernels for momentum, norm, scale and update. Products add to their sums themselves.
  double operator()(const Muon& o) const {
    if (o.iteration != compute_) return Roofline(o.iteration, device_, calibration_)(o);
    const std::int64_t m = o.shorter(), n = o.longer();
    const double iterations = static_cast<double>(o.steps) * arithmetic_seconds({{1, m, m, n}, {1, m, m, m}, {1, m, n, m}});
    return std::max(static_cast<double>(o.matrices) * iterations, traffic_seconds(o)) + kernels(o.matrices * (6 + 3 * o.steps));
  }
  double operator()(const TensorNorms& o) const { return stream(o); }
  double operator()(const LayerwiseMoments& o) const { return stream(o); }
  double operator()(const LayerwiseApply& o) const { return stream(o); }
  double operator()(const HostCopy& o) const {
    // A processor is its own host: the copy reads and writes one memory.
    if (device_.synchronous) return 2.0 * static_cast<double>(bytes_of(o.dtype, o.elements).count()) / memory_rate_;
    const double rate = device_.host_link.bytes_per_second();
    if (rate <= 0)
      throw InfeasibleError(Problem{"", "parallel.offload", "true",
                                    "there is no published bandwidth between " + device_.name + " and its host",
                                    "switch offloading off, or give cluster.override.host_link_bytes_per_s"});
    return static_cast<double>(bytes_of(o.dtype, o.elements).count()) / rate;
  }
  double operator()(const Collective&) const { return communication(); }
  double operator()(const Send&) const { return communication(); }
  double operator()(const Recv&) const { return communication(); }

  /// Seconds of a measured product on the slowest of many devices, whose arithmetic is slower but whose memory is not. A product
  /// that takes twice its traffic's time or more is slowed in full, one that takes just that time not at all.
  double on_slowest(const Op& op, double measured, double slowest) const {
    const double bound = std::clamp((measured - kernels(1)) / traffic_seconds(op) - 1, 0.0, 1.0);
    return measured * (1 + (slowest - 1) * bound);
  }
  /// Seconds to read or write the activation's operand when a tile is done: no arithmetic of that tile hides them.
  double beside_seconds(const MatMul& o) const {
    if (o.activation == ProductActivation::none) return 0;
    return static_cast<double>(bytes_of(compute_, o.m * o.n).count()) / memory_rate_;
  }
  /// Seconds of a measured product with its activation, or of the product alone plus the activation's traffic.
  std::optional<double> measured(const Op& op, const ProductTable& table) const {
    if (const auto whole = table.seconds(op, compute_)) return whole;
    const auto alone = table.seconds(without_activation(op), compute_);
    const auto* o = std::get_if<MatMul>(&op);
    return alone && o != nullptr ? std::optional(*alone + beside_seconds(*o)) : alone;
  }
  /// Seconds of the casts to a narrow type, which are kernels beside the product's own.
  double casts(const Op& op) const {
    if (const auto* o = std::get_if<MatMul>(&op)) return o->trans_a ? 0 : cast_seconds(o->m * o->k);
    if (const auto* o = std::get_if<GroupedMatMul>(&op)) return row_cast_seconds(o->rows() * o->k);
    return 0;
  }

 private:
  /// [seq, head_dim] by [head_dim, keys] for every head.
  static Gemm queries_by_keys(const AttentionDims& d) { return {d.batch * d.heads, d.seq, d.key_count(), d.head_dim}; }
  /// Dimensions of an indexer's heads, which share one key.
  static AttentionDims index_heads(const IndexDims& d) { return {d.batch, d.heads, d.seq, d.head_dim, 1, d.key_count()}; }
  static AttentionDims without_window(AttentionDims d) {
    d.window = 0;
    return d;
  }
  static Gemm contexts_by_values(const AttentionDims& d) { return {d.batch * d.heads, d.seq, d.key_count(), d.value_width()}; }
  /// [seq, keys] by [keys, head_dim] for every head.
  static Gemm scores_by_keys(const AttentionDims& d) { return {d.batch * d.heads, d.seq, d.head_dim, d.key_count()}; }
  static Gemm scores_by_values(const AttentionDims& d) { return {d.batch * d.heads, d.seq, d.value_width(), d.key_count()}; }
  /// One product for every expert with its rows, whichever ranks they came from. Uneven rows count as an even share, rounded up.
  static Gemm grouped(const auto& o, std::int64_t n, std::int64_t k) {
    return {o.experts, (o.rows() + o.experts - 1) / o.experts, n, k};
  }

  using Gemms = std::initializer_list<Gemm>;

  double arithmetic_seconds(const Gemms& gemms) const {
    const MatMulEngine engine{peak_of(device_, compute_).flops_per_second(),
                              device_.vector_rate.flops_per_second(),
                              memory_rate_,
                              device_.compute_units,
                              bits(compute_),
                              on_matrix_engine(compute_),
                              matrix_rate(device_),
                              compute_ == DType::fp8_block};
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
  /// Seconds of a kernel over pairs of query and key that writes no matrix, at the rate of FlashAttention 2 with heads like `d`.
  double over_pairs(const Op& op, const AttentionDims& d, bool backward) const {
    const std::optional<FlashFit>& law = calibration_.attention(AttentionKernel::flash2);
    const double products = flash_arithmetic(op, d, law, backward, peak_of(device_, compute_));
    const double beside = static_cast<double>(vector_flops(op).count()) / device_.vector_rate.flops_per_second();
    return std::max({products, beside, traffic_seconds(op)}) + kernels(1);
  }
  /// Seconds of a recurrence's kernels. Their products are tiles as in attention, so they get FlashAttention 2's rate of long
  /// sequences; no source measures them.
  double in_chunks(const auto& o, bool backward) const {
    const RecurrenceDims& d = o.dims;
    // Forward: mamba_ssm/ops/triton/ssd_combined.py, _mamba_chunk_scan_combined_fwd; fla/ops/gated_delta_rule/chunk.py.
    const std::int64_t forward_kernels = d.rule == RecurrenceRule::mamba2 ? 5 : 6;
    const std::optional<FlashFit>& law = calibration_.attention(AttentionKernel::flash2);
    const auto flops = static_cast<double>(matrix_flops(o).count());
    const Gemm tile{d.chunks() * d.heads, d.chunk(), d.value_dim, d.key_dim};
    const double tile_flops = 2.0 * static_cast<double>(tile.batch) * static_cast<double>(tile.m * tile.n * tile.k);
    const double arithmetic = law ? flops / (peak_of(device_, compute_).flops_per_second() *
                                             (backward ? law->backward_share : law->forward_share))
                                  : flops / tile_flops * arithmetic_seconds({tile});
    const double beside = static_cast<double>(vector_flops(o).count()) / device_.vector_rate.flops_per_second();
    return std::max({arithmetic, beside, calibration_.stream_factor * traffic_seconds(o)}) +
           kernels((backward ? 3 : 1) * forward_kernels);
  }
  /// Seconds of flash attention: one kernel that computes only the needed pairs of query and key.
  double flash(const auto& o, bool backward) const {
    const std::optional<FlashFit>& fit = flash_law(o);
    const double dropout = fit && o.dropout > 0 ? fit->dropout_factor : 1;
    const double ordered = fit && backward && o.deterministic ? fit->deterministic_factor * ordered_waves(o.dims, *fit) : 1;
    // A kernel without tensor cores computes in fp32, whatever its operands' type.
    const FlopRate peak = o.kernel == AttentionKernel::own ? device_.vector_rate : peak_of(device_, compute_);
    const double arithmetic = flash_arithmetic(o, o.dims, fit, backward, peak);
    return std::max(dropout * ordered * arithmetic, traffic_seconds(o)) + kernels(1);
  }
  const std::optional<FlashFit>& flash_law(const auto& o) const {
    if (o.deterministic && o.dropout > 0 && o.kernel != AttentionKernel::own && calibration_.deterministic_dropout_flash)
      return calibration_.deterministic_dropout_flash;
    return calibration_.attention(o.kernel);
  }
  double flash_arithmetic(const Op& op, const AttentionDims& d, const std::optional<FlashFit>& law, bool backward,
                          FlopRate peak) const {
    const auto flops = static_cast<double>(matrix_flops(op).count());
    if (!law) return flops / all_pairs(d) * arithmetic_seconds({queries_by_keys(d), scores_by_values(d)}) / 2;
    const FlashFit& fit = *law;
    const double waste = lists_keys(op) ? 1 : tile_waste(d, fit), rows = static_cast<double>(d.batch * d.heads * d.seq);
    const double tiles = std::max(1.0, rows / fit.tile_rows);
    const double filling = 1 + fit.fill * static_cast<double>(device_.compute_units) / tiles;
    const double short_rows = 1 + fit.half_keys / causal_length(d, waste);
    const double rate = peak.flops_per_second() * (backward ? fit.backward_share : fit.forward_share);
    return flops * waste * short_rows * filling * head_factor(d.head_dim, fit) / rate;
  }
  /// Whether an indexer chose the keys. Then a tile computes no other keys: it has the heads of one query, which see the same keys
  /// (deepseek-ai/FlashMLA: sparse attention kernels), or queries that chose the same block (arXiv 2606.13392 section 4).
  static bool lists_keys(const Op& op) {
    const auto* forward = std::get_if<FlashAttention>(&op);
    const auto* backward = std::get_if<FlashAttentionBackward>(&op);
    return (forward != nullptr && forward->chosen) || (backward != nullptr && backward->chosen);
  }
  /// (query, key) pairs of one head that a window leaves; all earlier ones without a window.
  static double pairs_of(const AttentionDims& d) {
    const std::int64_t n = d.key_count();
    return static_cast<double>(d.block > 0 ? pairs_in_blocks(n, d.window, d.block) : pairs_seen(n, d.window, d.chunked));
  }
  /// Length of a causal sequence for whose queries a kernel computes as many keys on average as for these. The charge for short rows
  /// is then a constant for each query, so fewer keys never take longer.
  static double causal_length(const AttentionDims& d, double waste) {
    const auto n = static_cast<double>(d.key_count());
    return d.window == 0 ? n : std::min(n, 2 * waste * pairs_of(d) / n);
  }
  /// Ratio of the pairs that a kernel computes to those that are seen. A tile of queries computes every key that one of its queries
  /// sees. Behind the first positions of a sliding window that is one tile of keys more than the last query sees. Chunks shorter than
  /// a tile share it. The law's rate includes the waste at the causal diagonal.
  static double tile_waste(const AttentionDims& d, const FlashFit& fit) {
    if (d.window == 0 || d.window >= d.key_count()) return 1;
    const double seen = pairs_of(d), all = static_cast<double>(pairs_seen(d.key_count(), 0, false));
    if (!d.chunked) return std::min(all, seen + fit.tile_rows * static_cast<double>(d.key_count() - d.window)) / seen;
    const auto least = static_cast<std::int64_t>(fit.tile_rows);
    return static_cast<double>(pairs_seen(d.key_count(), std::max(d.window, least), true)) / seen;
  }
  /// Ratio of a FLOP's time with heads of this size to that with 128. The kernel is that of the next size that has one.
  static double head_factor(std::int64_t head_dim, const FlashFit& fit) {
    const auto next = std::lower_bound(fit.head_dims.begin(), fit.head_dims.end(), head_dim);
    const double own = static_cast<double>(head_dim), padded = next == fit.head_dims.end() ? own : static_cast<double>(*next);
    const double narrowness = std::clamp(128 / padded - 1, 0.0, 1.0);
    return padded / own * (1 + narrowness * (fit.head_64_factor - 1));
  }
  /// Ratio of the waves of a deterministic backward pass to the waves that its blocks would fill. It cuts each head into as many
  /// blocks as fill the units once, so units are idle in the last wave.
  double ordered_waves(const AttentionDims& d, const FlashFit& fit) const {
    if (fit.ordered_blocks == 0) return 1;
    const double units = static_cast<double>(device_.compute_units);
    const double heads = static_cast<double>(std::max<std::int64_t>(1, d.batch * d.heads));
    const double blocks = std::ceil(units / heads) * heads, at_once = units * fit.ordered_blocks;
    return std::ceil(blocks / at_once) * at_once / blocks;
  }
  /// Mean FLOPs of the two products, queries by keys and scores by values, if every query sees every key.
  static double all_pairs(const AttentionDims& d) {
    return std::max(1.0, static_cast<double>(d.batch * d.heads) * static_cast<double>(d.seq) *
                             static_cast<double>(d.key_count() * d.pair_width()));
  }
  /// Seconds of a kernel over logits, plus `fp32` more passes over them in fp32 if the compute type is narrower.
  double passes(const Op& op, const VocabDims& d, double fp32) const {
    if (bits(compute_) >= 32) return stream(op);
    const double copies = fp32 * static_cast<double>(bytes_of(DType::fp32, d.rows * d.cols).count());
    return stream(op) + copies / memory_rate_;
  }
  /// Seconds of a kernel over activations. `stream_factor` covers casts, masks, statistics, odd layouts and gaps between kernels.
  double activation_kernel(const Op& op) const { return stream(op, calibration_.stream_factor); }
  double stream(const Op& op, double factor = 1) const {
    const double arithmetic = static_cast<double>(vector_flops(op).count()) / device_.vector_rate.flops_per_second();
    return std::max(arithmetic, factor * traffic_seconds(op)) + kernels(1);
  }
  /// Seconds to read and write the sum that a product is added to, when its tiles are done. Arithmetic of other tiles hides a part.
  double sum_seconds(const auto& o, std::int64_t elements) const {
    if (!o.accumulate) return 0;
    return calibration_.matmul.sum_exposed * 2.0 * static_cast<double>(bytes_of(o.total, elements).count()) / memory_rate_;
  }
  /// Seconds to cast a narrow product's activations: they are read in their own type and written in the narrow one, in two orders
  /// if the backward pass needs both.
  double cast_seconds(std::int64_t elements) const {
    if (bits(compute_) > 8) return 0;
    if (compute_ == DType::fp8_block) return row_cast_seconds(elements);
    return static_cast<double>(elements) * calibration_.cast_bytes / memory_rate_;
  }
  /// Seconds of a cast kernel of its own, which reads 16 bits and writes both orders. fp8_block needs one because no norm or
  /// activation writes block-scaled values (NVIDIA/TransformerEngine 01a4d046:
  /// transformer_engine/pytorch/csrc/extensions/normalization.cpp, force_unfused_kernel). Rows of experts need one because they
  /// come from an exchange or an activation, not from a norm (NVIDIA/TransformerEngine v1.11:
  /// transformer_engine/pytorch/module/grouped_linear.py and linear.py have fp8_multi_cast_transpose_fused and
  /// fp8_cast_transpose_fused; layernorm_linear.py's norm writes 8 bits itself).
  double row_cast_seconds(std::int64_t elements) const {
    if (bits(compute_) > 8 || calibration_.cast_bytes == 0) return 0;
    const Bytes order = bytes_of(compute_, elements) + row_scale_bytes(compute_, elements);
    return static_cast<double>((bytes_of(DType::bf16, elements) + order + order).count()) / memory_rate_;
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

double roofline_seconds(const Op& op, DType compute, const Device& device, const Calibration& calibration,
                        const ProductTable* measured, double slowest) {
  const Roofline roofline(compute, device, calibration);
  const auto product = measured == nullptr ? std::nullopt : roofline.measured(op, *measured);
  return product ? roofline.on_slowest(op, *product, slowest) + roofline.casts(op) : std::visit(roofline, op);
}

}  // namespace tandem::sim
