#pragma once
// The closed set of operations, with *local* (already sharded) dimensions. Nothing here knows what tensor parallelism
// or a schedule is. Visitors (flops, traffic, the cost model, the CPU reference) are total: an alternative that one of
// them misses does not compile.
//
// Conventions. Matrices are row-major. T = tokens of one micro-batch = batch*seq, rows ordered (sequence, position).
// "in:" and "out:" list a task's operands in order; an operand marked (inout) appears in both lists.
// qkv is [T, (heads + kv_heads)*head_dim + kv_heads*value_width] with columns ordered (group, {its query heads, k, v}, dim), which is
// (head, {q,k,v}, dim) where every head has its own keys: a tensor-parallel shard is a contiguous block of rows of the weight.
// kv is [T, kv_heads*(head_dim + value_width)] with columns (group, {k, v}, dim), where keys and values stand apart from the queries.
//
// Rows of hidden states. Under sequence parallelism some operations work on a *sequence shard*: rows [r*T/t, (r+1)*T/t) of
// tensor rank r. Under context parallelism T counts the positions of this context rank only: of 2c equal pieces of the
// sequence, context rank r of c holds the pieces r and 2c-1-r, so that causal attention is as much work on every rank.

#include <cstdint>
#include <string_view>
#include <variant>

#include "models/base/dtype.hpp"
#include "models/base/units.hpp"
#include "models/ops/attention.hpp"
#include "models/ops/communication.hpp"
#include "models/ops/embedding_loss.hpp"
#include "models/ops/experts.hpp"
#include "models/ops/indexer.hpp"
#include "models/ops/layer.hpp"
#include "models/ops/recurrence.hpp"
#include "models/ops/update.hpp"

namespace tandem {

using Op = std::variant<MatMul, BiasGrad, LayerNorm, LayerNormBackward, Pointwise, PointwiseBackward, GatedPointwise,
                        GatedPointwiseBackward, SoftCap, SoftCapBackward, RowGate, RowGateBackward, LatentNorm,
                        LatentNormBackward, Elementwise, RowReduce, AttentionScores,
                        AttentionSoftmax, AttentionContext, AttentionContextBackward, AttentionSoftmaxBackward,
                        AttentionScoresBackward, FlashAttention, FlashAttentionBackward, SplitKv, MergeKv, PackColumns,
                        UnpackColumns, HeadNorm, HeadNormBackward, RowNormSums, RowNorm, RowNormDots, RowNormBackward,
                        LatentHeads, LatentHeadsBackward, IndexTopK, IndexTarget, IndexTopKBackward, IndexBlocks,
                        IndexBlocksBackward, ShortConv, ShortConvBackward, Recurrence, RecurrenceBackward, GatedNorm,
                        GatedNormBackward, SigmoidGate, SigmoidGateBackward, Rotary, BiasDropoutAdd,
                        BiasDropoutAddBackward, BiasDropoutAddNorm, Embedding, EmbeddingBackward, PositionDropout,
                        PositionDropoutBackward, TakeFirst, TakeFirstBackward, VocabMax, VocabExpSum, CrossEntropy,
                        Accumulate, Fill, TopKRouter, TopKRouterBackward, BalanceGrad, MoeDispatch, MoeDispatchBackward,
                        MoeCombine, MoeCombineBackward, GroupedMatMul, GroupedWeightGrad, GroupedBias, GroupedBiasGrad, GradNorm,
                        ClipCoefficient, AdamW, Sgd, TensorNorms, LayerwiseMoments, LayerwiseApply, Collective, Send, Recv,
                        HostCopy>;

/// Builds a total visitor from one lambda (or function) per alternative.
template <class... F>
struct overloaded : F... { using F::operator()...; };
template <class... F>
overloaded(F...) -> overloaded<F...>;

/// Stable lower-case kind, e.g. "matmul", "attention_scores": the unit of comparison and of cost tables.
std::string_view kind_name(const Op& op);
inline constexpr std::size_t kOpKinds = std::variant_size_v<Op>;

/// Matrix-product FLOPs (2 m n k; attention with a score matrix over all of seq x keys, flash attention over the pairs that
/// are needed, 4 head_dim each forward and 10 backward): what a device does. 0 for the rest.
Flops matrix_flops(const Op& op);
/// Arithmetic of operations that are not matrix products, counted a few per element; for the cost model only.
Flops vector_flops(const Op& op);
/// Device-memory bytes read and written when every operand moves once, with activations in `compute`.
Bytes traffic(const Op& op, DType compute);
/// Bytes a communication carries in nccl-tests' convention (the full vector); 0 for computation.
Bytes payload(const Op& op);
/// True for Collective, Send and Recv; HostCopy concerns one rank alone.
bool is_communication(const Op& op);
/// True for what no backend has a kernel of: an indexer's of blocks, a recurrence's and a gate of attention's output.
bool is_simulated_only(const Op& op);

}  // namespace tandem
