#pragma once
// A launch's operands, for the functions that make its works.

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "exec/device/works/work.hpp"

namespace tandem::exec::device {

/// The form of a kernel: fp64 for fp64, else fp32 arithmetic. If all large operands are fp32 or all bf16, the type is compiled in.
inline Form form_of(DType compute, std::initializer_list<Typed> large) {
  if (compute == DType::fp64) return Form::doubles;
  const auto all = [&](auto is) {
    return std::all_of(large.begin(), large.end(), [&](const Typed& t) { return !t.here() || is(t.type); });
  };
  if (all([](DType t) { return t == DType::fp32 || t == DType::tf32; })) return Form::floats;
  return all([](DType t) { return t == DType::bf16; }) ? Form::bf16 : Form::mixed;
}

class Operands {
 public:
  Operands(const Launch& launch, const WorkContext& around) : launch_(launch), around_(around) {}

  Typed in(std::size_t i) const {
    require(i < launch_.in.size(), "an operation lacks an input");
    return {launch_.in[i].address, launch_.in[i].dtype};
  }
  Typed out(std::size_t i) const {
    require(i < launch_.out.size(), "an operation lacks an output");
    return {launch_.out[i].address, launch_.out[i].dtype};
  }
  Typed in_if(bool there, std::size_t i) const { return there ? in(i) : Typed{}; }
  Typed out_if(bool there, std::size_t i) const { return there ? out(i) : Typed{}; }
  Form form(std::initializer_list<Typed> large) const { return form_of(launch_.compute, large); }
  DType compute() const { return launch_.compute; }
  const Launch& launch() const { return launch_; }
  const KernelContext& context() const { return launch_.context; }
  StepTable* table() const {
    require(launch_.context.table != nullptr, "an operation that needs the step table got none");
    return launch_.context.table;
  }
  const WorkContext& around() const { return around_; }

  /// Where the documents begin that an operation keeps apart, if it does.
  Documents documents(bool separate) const {
    require(!separate || context().documents != nullptr, "documents that nobody named");
    return separate ? Documents{context().documents, context().seq_length} : Documents{};
  }
  /// The dropout masks of a site.
  Dropout dropout(DropoutSite site, double rate) const;
  /// `local_seq`: positions of a sequence on this context rank. `rows`: number of this rank's rows.
  HiddenRows rows(std::int64_t local_seq, std::int64_t rows, bool shard) const;

 private:
  const Launch& launch_;
  const WorkContext& around_;
};

using Works = std::vector<Work>;

/// The type of numbers in scratch memory.
inline DType number_of(DType compute) { return compute == DType::fp64 ? DType::fp64 : DType::fp32; }
/// True for an fp32 operand of a 16-bit product. It is rounded first, into scratch memory after that of the sums.
inline bool is_rounded(const Launch& launch, std::size_t i) {
  return i < launch.in.size() && bits(launch.compute) == 16 && launch.in[i].dtype == DType::fp32;
}
inline std::int64_t operand_elements(const MatMul& op, std::size_t i) { return i == 0 ? op.m * op.k : op.k * op.n; }
/// Bytes for the column sums of a matrix, a block of columns at a time.
std::int64_t block_sums_scratch(const ColumnBlocks& blocks, std::int64_t rows, std::int64_t cols);
inline std::int64_t sums_scratch(const MatMul& op) {
  return op.sums ? parts(block_sums_scratch(op.blocks, op.k, op.m), 256) * 256 : 0;
}
/// Scratch bytes after those of the sums: for operands that are rounded, then for a first operand whose ColumnBlocks are joined.
std::int64_t rounded_scratch(const MatMul& op, const Launch& launch);
std::int64_t joined_scratch(const MatMul& op, DType compute);

/// Gradients of a norm's input (if `rows` has dx), weight and shift (if present). Uses norm_scratch bytes of scratch memory.
Works norm_gradients(const Operands& at, const NormGradRows& rows, Typed dgamma, Typed dbeta);
/// Bytes for the expert of every choice.
inline std::int64_t chosen_scratch(const MoeDims& d) { return parts(d.tokens * d.top_k * 4, 8) * 8; }
/// The heads that a head norm reads, including value heads if it norms them.
template <class Norm>
HeadRows head_rows(const Norm& op) {
  const AttentionDims& d = op.dims;
  const std::int64_t value = op.values == NormedValues::own ? d.value_width() : 0;
  return {d.batch * d.seq, d.groups(), d.per_group(), d.head_dim, d.group_width(), value};
}
/// Scratch memory of LatentNormBackward: partial sums of the weight's gradient, the norm's input, and its gradient.
inline std::int64_t latent_sums_scratch(const LatentNormBackward& op) { return parts(norm_scratch(op.rows, op.cols), 256) * 256; }
inline std::int64_t latent_scratch(const LatentNormBackward& op, DType type) {
  return latent_sums_scratch(op) + 2 * padded_bytes(type, op.rows * op.cols);
}

/// Scratch bytes of flash attention.
std::int64_t flash_scratch(const Launch& launch);
/// Scratch bytes of attention with stored scores; 0: none, or another operation.
std::int64_t scores_scratch(const Launch& launch);

// works_layer.cpp
Works works(const MatMul& op, const Operands& at);
Works works(const BiasGrad& op, const Operands& at);
Works works(const LayerNorm& op, const Operands& at);
Works works(const LayerNormBackward& op, const Operands& at);
Works works(const Pointwise& op, const Operands& at);
Works works(const PointwiseBackward& op, const Operands& at);
Works works(const GatedPointwise& op, const Operands& at);
Works works(const GatedPointwiseBackward& op, const Operands& at);
Works works(const Elementwise& op, const Operands& at);
Works works(const RowReduce& op, const Operands& at);
Works works(const BiasDropoutAdd& op, const Operands& at);
Works works(const BiasDropoutAddBackward& op, const Operands& at);
Works works(const BiasDropoutAddNorm& op, const Operands& at);
// works_scores.cpp
Works works(const AttentionScores& op, const Operands& at);
Works works(const AttentionSoftmax& op, const Operands& at);
Works works(const AttentionContext& op, const Operands& at);
Works works(const AttentionContextBackward& op, const Operands& at);
Works works(const AttentionSoftmaxBackward& op, const Operands& at);
Works works(const AttentionScoresBackward& op, const Operands& at);
// works_attention.cpp
Works works(const FlashAttention& op, const Operands& at);
Works works(const FlashAttentionBackward& op, const Operands& at);
// works_sparse.cpp; attention to chosen keys has its own works
std::int64_t index_scratch(const IndexTopK& op, DType compute);
std::int64_t index_scratch(const IndexTopKBackward& op, DType compute);
Works chosen_works(const FlashAttention& op, const Operands& at);
Works chosen_works(const FlashAttentionBackward& op, const Operands& at);
Works works(const IndexTopK& op, const Operands& at);
Works works(const IndexTarget& op, const Operands& at);
Works works(const IndexTopKBackward& op, const Operands& at);
// works_latent.cpp
Works works(const LatentNorm& op, const Operands& at);
Works works(const LatentNormBackward& op, const Operands& at);
Works works(const LatentHeads& op, const Operands& at);
Works works(const LatentHeadsBackward& op, const Operands& at);
// works_moves.cpp
Works works(const HeadNorm& op, const Operands& at);
Works works(const HeadNormBackward& op, const Operands& at);
Works works(const RowNormSums& op, const Operands& at);
Works works(const RowNorm& op, const Operands& at);
Works works(const RowNormDots& op, const Operands& at);
Works works(const RowNormBackward& op, const Operands& at);
Works works(const SoftCap& op, const Operands& at);
Works works(const SoftCapBackward& op, const Operands& at);
Works works(const RowGate& op, const Operands& at);
Works works(const RowGateBackward& op, const Operands& at);
Works works(const Rotary& op, const Operands& at);
Works works(const SplitKv& op, const Operands& at);
Works works(const MergeKv& op, const Operands& at);
Works works(const PackColumns& op, const Operands& at);
Works works(const UnpackColumns& op, const Operands& at);
Works works(const OrderRows& op, const Operands& at);
Works works(const TakePart& op, const Operands& at);
Works works(const PlacePart& op, const Operands& at);
Works works(const TakeColumns& op, const Operands& at);
Works works(const AddColumns& op, const Operands& at);
Works works(const TakeFirst& op, const Operands& at);
Works works(const TakeFirstBackward& op, const Operands& at);
Works works(const Accumulate& op, const Operands& at);
Works works(const Dequantize& op, const Operands& at);
Works works(const Fill& op, const Operands& at);
// works_ends.cpp
Works works(const Embedding& op, const Operands& at);
Works works(const EmbeddingBackward& op, const Operands& at);
Works works(const PositionDropout& op, const Operands& at);
Works works(const PositionDropoutBackward& op, const Operands& at);
Works works(const VocabMax& op, const Operands& at);
Works works(const VocabExpSum& op, const Operands& at);
Works works(const CrossEntropy& op, const Operands& at);
// works_update.cpp
Works works(const GradNorm& op, const Operands& at);
Works works(const ClipCoefficient& op, const Operands& at);
Works works(const AdamW& op, const Operands& at);
Works works(const Sgd& op, const Operands& at);
// works_muon.cpp
std::int64_t muon_scratch(const Muon& op);
Works works(const Muon& op, const Operands& at);
// works_layerwise.cpp
Works works(const TensorNorms& op, const Operands& at);
Works works(const LayerwiseMoments& op, const Operands& at);
Works works(const LayerwiseApply& op, const Operands& at);
// works_recurrence.cpp
std::size_t scan_shared_bytes(const RecurrenceDims& d, DType compute);
std::int64_t recurrence_scratch(const Recurrence& op, DType compute);
std::int64_t recurrence_scratch(const RecurrenceBackward& op, DType compute);
std::int64_t recurrence_scratch(const ShortConvBackward& op, DType compute);
std::int64_t recurrence_scratch(const GatedNormBackward& op);
Works works(const Recurrence& op, const Operands& at);
Works works(const RecurrenceBackward& op, const Operands& at);
Works works(const ShortConv& op, const Operands& at);
Works works(const ShortConvBackward& op, const Operands& at);
Works works(const GatedNorm& op, const Operands& at);
Works works(const GatedNormBackward& op, const Operands& at);
Works works(const SigmoidGate& op, const Operands& at);
Works works(const SigmoidGateBackward& op, const Operands& at);
// works_experts.cpp
Works works(const TopKRouter& op, const Operands& at);
Works works(const TopKRouterBackward& op, const Operands& at);
Works works(const BalanceGrad& op, const Operands& at);
Works works(const ExpertSlots& op, const Operands& at);
Works works(const MoeDispatch& op, const Operands& at);
Works works(const MoeDispatchBackward& op, const Operands& at);
Works works(const MoeCombine& op, const Operands& at);
Works works(const MoeCombineBackward& op, const Operands& at);
std::int64_t experts_scratch(const GroupedMatMul& op, const Launch& launch);
std::int64_t experts_scratch(const GroupedWeightGrad& op, const Launch& launch);
Works works(const GroupedMatMul& op, const Operands& at);
Works works(const GroupedWeightGrad& op, const Operands& at);
Works works(const GroupedBias& op, const Operands& at);
Works works(const GroupedBiasGrad& op, const Operands& at);

}  // namespace tandem::exec::device
