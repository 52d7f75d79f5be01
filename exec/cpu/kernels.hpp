#pragma once
// One overload per computation of models/ops/op.hpp. `T` (float or double) is the type of all floating-point operands to which
// op.hpp gives no other type. An operation without an overload here does not compile (backend.cpp).

#include "exec/cpu/call.hpp"
#include "models/ops/op.hpp"
#include "models/ops/simulated_only.hpp"

namespace tandem::exec::cpu {

// products.cpp
template <class T>
void compute(const MatMul& op, Call& call);
template <class T>
void compute(const AttentionScores& op, Call& call);
template <class T>
void compute(const AttentionContext& op, Call& call);
template <class T>
void compute(const AttentionContextBackward& op, Call& call);
template <class T>
void compute(const AttentionScoresBackward& op, Call& call);
template <class T>
void compute(const GroupedMatMul& op, Call& call);
template <class T>
void compute(const GroupedWeightGrad& op, Call& call);
// softmax.cpp
template <class T>
void compute(const AttentionSoftmax& op, Call& call);
template <class T>
void compute(const AttentionSoftmaxBackward& op, Call& call);
// flash.cpp
template <class T>
void compute(const FlashAttention& op, Call& call);
template <class T>
void compute(const FlashAttentionBackward& op, Call& call);
// sparse/attention.cpp; flash.cpp calls the first two if an indexer chose the keys
template <class T>
void attend_to_chosen(const FlashAttention& op, Call& call);
template <class T>
void attend_to_chosen(const FlashAttentionBackward& op, Call& call);
template <class T>
void compute(const IndexTarget& op, Call& call);
// sparse/indexer.cpp
template <class T>
void compute(const IndexTopK& op, Call& call);
template <class T>
void compute(const IndexTopKBackward& op, Call& call);
// recurrence/short_conv.cpp
template <class T>
void compute(const ShortConv& op, Call& call);
template <class T>
void compute(const ShortConvBackward& op, Call& call);
// recurrence/recurrence.cpp
template <class T>
void compute(const Recurrence& op, Call& call);
// recurrence/recurrence_backward.cpp
template <class T>
void compute(const RecurrenceBackward& op, Call& call);
// recurrence/gates.cpp
template <class T>
void compute(const GatedNorm& op, Call& call);
template <class T>
void compute(const GatedNormBackward& op, Call& call);
template <class T>
void compute(const SigmoidGate& op, Call& call);
template <class T>
void compute(const SigmoidGateBackward& op, Call& call);
// moves.cpp
template <class T>
void compute(const SplitKv& op, Call& call);
template <class T>
void compute(const MergeKv& op, Call& call);
template <class T>
void compute(const PackColumns& op, Call& call);
template <class T>
void compute(const UnpackColumns& op, Call& call);
template <class T>
void compute(const OrderRows& op, Call& call);
template <class T>
void compute(const TakePart& op, Call& call);
template <class T>
void compute(const PlacePart& op, Call& call);
template <class T>
void compute(const TakeColumns& op, Call& call);
template <class T>
void compute(const AddColumns& op, Call& call);
template <class T>
void compute(const TakeFirst& op, Call& call);
template <class T>
void compute(const TakeFirstBackward& op, Call& call);
template <class T>
void compute(const Fill& op, Call& call);
// layer_norm.cpp
template <class T>
void compute(const LayerNorm& op, Call& call);
template <class T>
void compute(const LayerNormBackward& op, Call& call);
// pointwise.cpp
template <class T>
void compute(const Pointwise& op, Call& call);
template <class T>
void compute(const PointwiseBackward& op, Call& call);
// gated.cpp
template <class T>
void compute(const GatedPointwise& op, Call& call);
template <class T>
void compute(const GatedPointwiseBackward& op, Call& call);
// elementwise.cpp
template <class T>
void compute(const Elementwise& op, Call& call);
template <class T>
void compute(const RowReduce& op, Call& call);
// head_norm.cpp
template <class T>
void compute(const HeadNorm& op, Call& call);
template <class T>
void compute(const HeadNormBackward& op, Call& call);
template <class T>
void compute(const RowNormSums& op, Call& call);
template <class T>
void compute(const RowNorm& op, Call& call);
template <class T>
void compute(const RowNormDots& op, Call& call);
template <class T>
void compute(const RowNormBackward& op, Call& call);
// caps_gates.cpp
template <class T>
void compute(const SoftCap& op, Call& call);
template <class T>
void compute(const SoftCapBackward& op, Call& call);
template <class T>
void compute(const RowGate& op, Call& call);
template <class T>
void compute(const RowGateBackward& op, Call& call);
// latent.cpp
template <class T>
void compute(const LatentNorm& op, Call& call);
template <class T>
void compute(const LatentNormBackward& op, Call& call);
template <class T>
void compute(const LatentHeads& op, Call& call);
template <class T>
void compute(const LatentHeadsBackward& op, Call& call);
// rotary.cpp
template <class T>
void compute(const Rotary& op, Call& call);
// dequantize.cpp
template <class T>
void compute(const Dequantize& op, Call& call);
// residual.cpp
template <class T>
void compute(const BiasGrad& op, Call& call);
template <class T>
void compute(const BiasDropoutAdd& op, Call& call);
template <class T>
void compute(const BiasDropoutAddBackward& op, Call& call);
template <class T>
void compute(const BiasDropoutAddNorm& op, Call& call);
// embedding.cpp
template <class T>
void compute(const Embedding& op, Call& call);
template <class T>
void compute(const EmbeddingBackward& op, Call& call);
template <class T>
void compute(const PositionDropout& op, Call& call);
template <class T>
void compute(const PositionDropoutBackward& op, Call& call);
// loss.cpp
template <class T>
void compute(const VocabMax& op, Call& call);
template <class T>
void compute(const VocabExpSum& op, Call& call);
template <class T>
void compute(const CrossEntropy& op, Call& call);
// moe.cpp
template <class T>
void compute(const TopKRouter& op, Call& call);
template <class T>
void compute(const TopKRouterBackward& op, Call& call);
template <class T>
void compute(const BalanceGrad& op, Call& call);
template <class T>
void compute(const ExpertSlots& op, Call& call);
template <class T>
void compute(const MoeDispatch& op, Call& call);
template <class T>
void compute(const MoeDispatchBackward& op, Call& call);
template <class T>
void compute(const MoeCombine& op, Call& call);
template <class T>
void compute(const MoeCombineBackward& op, Call& call);
// optimizer.cpp
template <class T>
void compute(const Accumulate& op, Call& call);
template <class T>
void compute(const GradNorm& op, Call& call);
template <class T>
void compute(const ClipCoefficient& op, Call& call);
template <class T>
void compute(const AdamW& op, Call& call);
template <class T>
void compute(const Sgd& op, Call& call);
// muon.cpp
template <class T>
void compute(const Muon& op, Call& call);
// layerwise.cpp
template <class T>
void compute(const TensorNorms& op, Call& call);
template <class T>
void compute(const LayerwiseMoments& op, Call& call);
template <class T>
void compute(const LayerwiseApply& op, Call& call);
// grouped_bias.cpp
template <class T>
void compute(const GroupedBias& op, Call& call);
template <class T>
void compute(const GroupedBiasGrad& op, Call& call);

/// Not for kernels: communicators handle communication, executors host memory. Throws DeviceError.
template <class T>
void compute(const Collective&, Call&) {
  throw DeviceError("the CPU backend does not communicate");
}
template <class T>
void compute(const Send&, Call&) {
  throw DeviceError("the CPU backend does not communicate");
}
template <class T>
void compute(const Recv&, Call&) {
  throw DeviceError("the CPU backend does not communicate");
}
template <class T>
void compute(const HostCopy&, Call&) {
  throw DeviceError("a copy to the host's memory is the queue's");
}

/// Operations that are simulated only. Throws DeviceError.
template <class T, SimulatedOnly O>
void compute(const O& op, Call&) {
  throw DeviceError("the CPU backend has no kernel of " + std::string(kind_name(Op(op))) + ", which only the simulator knows");
}

/// Instantiates a kernel, at the end of its file.
#define TANDEM_KERNEL(Op)                         \
  template void compute<float>(const Op&, Call&); \
  template void compute<double>(const Op&, Call&)

}  // namespace tandem::exec::cpu
