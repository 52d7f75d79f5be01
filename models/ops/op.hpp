#pragma once
// The closed set of operations, with *local* (already sharded) sizes. Operations know
// nothing of tensor parallelism or schedules. Visitors (FLOPs, traffic, cost model,
// CPU backend) handle every alternative: one that misses any does not compile.
//
// Conventions. Matrices are row-major. T = tokens of one micro-batch = batch*seq, rows ordered (sequence, position).
// "in:" and "out:" list a task's operands in order; an operand marked (inout) appears in both lists.
// qkv is [T, (heads + kv_heads)*head_dim + kv_heads*value_width] with columns (group, {its query heads, k, v}, dim). If every
// head has its own keys this is (head, {q,k,v}, dim). A tensor-parallel shard is a contiguous block of rows of the weight.
// kv, separate from the queries, is [T, kv_heads*(head_dim + value_width)] with columns (group, {k, v}, dim).
//
// Rows of hidden states. Under sequence parallelism some operations work on a *sequence shard*: rows [r*T/t, (r+1)*T/t)
// of tensor rank r. Under context parallelism T counts only this context rank's positions. The sequence has 2c equal
// pieces, and context rank r of c holds pieces r and 2c-1-r. So causal attention is the same work on every rank.

#include <cstdint>
#include <string_view>
#include <variant>

#include "models/base/dtype.hpp"
#include "models/base/units.hpp"
#include "models/ops/attention.hpp"
#include "models/ops/column_slice.hpp"
#include "models/ops/communication.hpp"
#include "models/ops/embedding_loss.hpp"
#include "models/ops/experts.hpp"
#include "models/ops/head_share.hpp"
#include "models/ops/indexer.hpp"
#include "models/ops/layer.hpp"
#include "models/ops/recurrence.hpp"
#include "models/ops/update.hpp"

namespace tandem {

using Op = std::variant<MatMul, Dequantize, BiasGrad, LayerNorm, LayerNormBackward, Pointwise, PointwiseBackward, GatedPointwise,
                        GatedPointwiseBackward, SoftCap, SoftCapBackward, RowGate, RowGateBackward, LatentNorm,
                        LatentNormBackward, Elementwise, RowReduce, AttentionScores,
                        AttentionSoftmax, AttentionContext, AttentionContextBackward, AttentionSoftmaxBackward,
                        AttentionScoresBackward, FlashAttention, FlashAttentionBackward, SplitKv, MergeKv, PackColumns,
                        UnpackColumns, OrderRows, TakePart, PlacePart, TakeColumns, AddColumns, HeadNorm, HeadNormBackward,
                        RowNormSums, RowNorm, RowNormDots, RowNormBackward, LatentHeads, LatentHeadsBackward, IndexTopK,
                        IndexTarget, IndexTopKBackward, IndexBlocks, IndexBlocksBackward, ShortConv, ShortConvBackward, Recurrence,
                        RecurrenceBackward, GatedNorm, GatedNormBackward, SigmoidGate, SigmoidGateBackward, Rotary,
                        BiasDropoutAdd, BiasDropoutAddBackward, BiasDropoutAddNorm, Embedding, EmbeddingBackward, PositionDropout,
                        PositionDropoutBackward, TakeFirst, TakeFirstBackward, VocabMax, VocabExpSum, CrossEntropy,
                        Accumulate, Fill, TopKRouter, TopKRouterBackward, BalanceGrad, ExpertSlots, MoeDispatch,
                        MoeDispatchBackward, MoeCombine, MoeCombineBackward, GroupedMatMul, GroupedWeightGrad, GroupedBias,
                        GroupedBiasGrad, GradNorm, ClipCoefficient, AdamW, Sgd, Muon, TensorNorms, LayerwiseMoments,
                        LayerwiseApply, Collective, Send, Recv, HostCopy>;

/// Builds a total visitor from one lambda (or function) per alternative.
template <class... F>
struct overloaded : F... { using F::operator()...; };
template <class... F>
overloaded(F...) -> overloaded<F...>;

/// Stable lower-case kind, e.g. "matmul", "attention_scores": the unit of comparison and of cost tables.
std::string_view kind_name(const Op& op);
inline constexpr std::size_t kOpKinds = std::variant_size_v<Op>;

/// Matrix-product FLOPs that a device executes: 2 m n k; attention with a score matrix over all seq x keys; flash
/// attention 4 head_dim forward and 10 head_dim backward for each pair that the mask allows. 0 for other operations.
Flops matrix_flops(const Op& op);
/// FLOPs of operations other than matrix products, a few per element. Only the cost model uses them.
Flops vector_flops(const Op& op);
/// Device-memory bytes read and written when every operand moves once, with activations in `compute`.
Bytes traffic(const Op& op, DType compute);
/// Payload of a communication in nccl-tests' convention (the full vector); 0 for computation.
Bytes payload(const Op& op);
/// True for Collective, Send and Recv. False for HostCopy, which one rank performs alone.
bool is_communication(const Op& op);
/// True for operations without a kernel in any backend: block-level indexers, weights with double quantization.
bool is_simulated_only(const Op& op);

}  // namespace tandem
