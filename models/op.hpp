#pragma once
// The closed set of operations, with *local* (already sharded) dimensions. Nothing here knows what tensor parallelism
// or a schedule is. Visitors (flops, traffic, the cost model, the CPU reference) are total: an alternative that one of
// them misses does not compile.
//
// Conventions. Matrices are row-major. T = tokens of one micro-batch = batch*seq, rows ordered (sequence, position).
// "in:" and "out:" list a task's operands in order; an operand marked (inout) appears in both lists.
// qkv is [T, (heads + 2 kv_heads)*head_dim] with columns ordered (group, {its query heads, k, v}, dim), which is
// (head, {q,k,v}, dim) where every head has its own keys: a tensor-parallel shard is a contiguous block of rows of the weight.

#include <cstdint>
#include <string_view>
#include <variant>

#include "models/base/units.hpp"
#include "models/dtype.hpp"
#include "models/mesh.hpp"

namespace tandem {

/// Where a random mask is drawn; with (seed, step, layer, global index) it names every random number of a run.
enum class DropoutSite : std::uint8_t { embedding, attention, attention_output, mlp_output };

/// C[m,n] = op(A) op(B) (+ bias over columns). op(A) is [m,k], op(B) is [k,n]; trans_x means x is stored transposed.
/// in: A, B, [bias n]; out: C
struct MatMul {
  std::int64_t m, n, k;
  bool trans_a = false, trans_b = false, bias = false;
};

/// Column sums. in: dy[rows,cols]; out: dbias[cols]
struct BiasGrad { std::int64_t rows, cols; };

/// `rms`: RMSNorm (arXiv 1910.07467), which takes off no mean (it stands as 0 in stats) and has no beta.
/// in: x[rows,cols], gamma, [beta unless rms]; out: y, stats[rows,2] (mean, 1/std)
struct LayerNorm { std::int64_t rows, cols; double epsilon; bool rms = false; };
/// in: dy, x, stats, gamma, [residual dres]; out: dx (+= dres when add_residual), dgamma, [dbeta unless rms]
struct LayerNormBackward { std::int64_t rows, cols; bool add_residual; bool rms = false; };

/// Tanh-approximated GELU, ReLU or squared ReLU. in: x; out: y
enum class PointwiseKind : std::uint8_t { gelu_tanh, relu, squared_relu };
struct Pointwise { std::int64_t elements; PointwiseKind kind; };
/// in: dy, x; out: dx
struct PointwiseBackward { std::int64_t elements; PointwiseKind kind; };

/// y = act(gate) * up: SwiGLU and GeGLU (arXiv 2002.05202). Columns of x are ordered (unit, {gate, up}), so a
/// tensor-parallel shard is a contiguous block of rows of the weight. in: x[rows, 2*cols]; out: y[rows, cols]
enum class GateKind : std::uint8_t { silu, gelu_tanh };
struct GatedPointwise { std::int64_t rows, cols; GateKind kind; };
/// in: dy[rows, cols], x[rows, 2*cols]; out: dx[rows, 2*cols]
struct GatedPointwiseBackward { std::int64_t rows, cols; GateKind kind; };

/// Dimensions shared by the attention operations that keep the score matrix. heads are local; seq x seq is full, as
/// the published FLOP counts have it.
struct AttentionDims {
  std::int64_t batch, heads, seq, head_dim;
  std::int64_t kv_heads = 0;  ///< key and value heads (grouped-query attention), a divisor of heads; 0: as many as heads

  std::int64_t groups() const { return kv_heads > 0 ? kv_heads : heads; }
  /// Columns of qkv.
  std::int64_t qkv_width() const { return (heads + 2 * groups()) * head_dim; }
};
/// scores[batch,heads,seq,seq] = q k^T / sqrt(head_dim). in: qkv; out: scores
struct AttentionScores { AttentionDims dims; };
/// Causal softmax (+ ALiBi bias), then dropout. in: scores; out: probs, [dropped when dropout > 0]
struct AttentionSoftmax { AttentionDims dims; double dropout; bool alibi; };
/// context[T, heads*head_dim] = probs v. in: probs (dropped ones where there are), qkv; out: context
struct AttentionContext { AttentionDims dims; };
/// in: dcontext, probs (as AttentionContext read them), qkv; out: dprobs, dqkv (writes its v part)
struct AttentionContextBackward { AttentionDims dims; };
/// in: dprobs, probs (before dropout); out: dscores
struct AttentionSoftmaxBackward { AttentionDims dims; double dropout; };
/// in: dscores, qkv; out: dqkv (inout: writes its q and k parts)
struct AttentionScoresBackward { AttentionDims dims; };

/// Rotary position embedding (arXiv 2104.09864) of the query and key heads, halves paired: (i, i + head_dim/2) turns by
/// position * theta^(-2i/head_dim). `inverse` turns back: the gradient. in: qkv (inout); out: qkv
struct Rotary { AttentionDims dims; double theta; bool inverse = false; };

/// y = dropout(x + bias) + residual. in: x[rows,cols], [bias when bias], residual; out: y
struct BiasDropoutAdd { std::int64_t rows, cols; double dropout; bool bias; DropoutSite site; };
/// dx = mask * dy / (1-p). in: dy; out: dx, [dbias when bias]
struct BiasDropoutAddBackward { std::int64_t rows, cols; double dropout; bool bias; DropoutSite site; };

/// Rows of a vocabulary shard; tokens outside the shard give zero rows. The shard of tensor rank t starts at
/// t*vocab_rows. in: tokens[T] (int32), table[vocab_rows, hidden]; out: y[T, hidden]
struct Embedding { std::int64_t tokens, hidden, vocab_rows; };
/// dtable is zeroed, then tokens are added in ascending order. in: tokens, dy; out: dtable
struct EmbeddingBackward { std::int64_t tokens, hidden, vocab_rows; };
/// y = dropout(x + position[pos]) (position omitted when !learned). in: x, [table[seq.., hidden]]; out: y
struct PositionDropout { std::int64_t batch, seq, hidden; double dropout; bool learned; };
/// in: dy; out: dx, [dposition[max_positions, hidden] when learned; rows beyond seq are zeroed]
struct PositionDropoutBackward { std::int64_t batch, seq, hidden, max_positions; double dropout; bool learned; };

/// Shared by the three vocabulary-parallel loss operations: rows = T, cols = columns of this shard (padded),
/// `vocab_size` the unpadded vocabulary: columns at or beyond it take no part.
struct VocabDims { std::int64_t rows, cols, vocab_size; };
/// in: logits; out: max[rows]
struct VocabMax { VocabDims dims; };
/// in: logits, max (global), targets (int32); out: sums[2,rows] = (sum exp(x-max), target logit - max or 0)
struct VocabExpSum { VocabDims dims; };
/// Loss and its gradient, both already divided by the tokens of the *global* batch, so they are only ever summed.
/// in: logits, max, sums (global), targets; out: loss[1] fp64 (inout unless `first`), dlogits[rows,cols]
struct CrossEntropy { VocabDims dims; std::int64_t global_tokens; bool first; };

/// destination += source, converting to the destination's type. in: source, destination(inout); out: destination
struct Accumulate { std::int64_t elements; DType source, destination; };

/// Per-parameter sums of squares of a rank's gradients, each the ordered sum of fixed-block partial sums; entries of
/// other ranks' parameters are 0, so the all-reduced vector is the same on every rank and for every pipeline degree.
/// in: gradients (flat); out: partial[global_parameters] fp64
struct GradNorm { std::int64_t elements, global_parameters; DType gradients = DType::fp32; };
/// Ordered sum of the vector -> scalars grad_norm, clip_coefficient, found_nonfinite. in: partial; out: none
struct ClipCoefficient { std::int64_t global_parameters; double clip_grad; };
/// One AdamW update of all parameters of the rank, a no-op under found_nonfinite. Decay applies to matrices only.
/// in: gradients (flat), then as out; out: weights, exp_avg, exp_avg_sq, [master] (all inout, flat)
struct AdamW {
  std::int64_t elements;
  double beta1, beta2, epsilon, weight_decay;
  bool master;
  DType gradients = DType::fp32, weights = DType::fp32, state = DType::fp32;
};

enum class CollectiveKind : std::uint8_t { all_reduce, all_gather, reduce_scatter, broadcast, all_to_all };
enum class Reduce : std::uint8_t { sum, max };
/// In place on one buffer of `elements` (nccl-tests' "size": the full vector). in: buffer(inout); out: buffer
struct Collective {
  CollectiveKind kind;
  Group group;
  std::int64_t elements;
  DType dtype;
  Reduce reduce = Reduce::sum;
};
/// Rendezvous with the stage `stage_offset` away (+1 or -1). in: buffer
struct Send { std::int64_t elements; DType dtype; int stage_offset; };
/// out: buffer
struct Recv { std::int64_t elements; DType dtype; int stage_offset; };

using Op = std::variant<MatMul, BiasGrad, LayerNorm, LayerNormBackward, Pointwise, PointwiseBackward,
                        GatedPointwise, GatedPointwiseBackward, AttentionScores,
                        AttentionSoftmax, AttentionContext, AttentionContextBackward, AttentionSoftmaxBackward,
                        AttentionScoresBackward, Rotary, BiasDropoutAdd, BiasDropoutAddBackward, Embedding, EmbeddingBackward,
                        PositionDropout, PositionDropoutBackward, VocabMax, VocabExpSum, CrossEntropy, Accumulate,
                        GradNorm, ClipCoefficient, AdamW, Collective, Send, Recv>;

/// Builds a total visitor from one lambda (or function) per alternative.
template <class... F>
struct overloaded : F... { using F::operator()...; };
template <class... F>
overloaded(F...) -> overloaded<F...>;

/// Stable lower-case kind, e.g. "matmul", "attention_scores": the unit of comparison and of cost tables.
std::string_view kind_name(const Op& op);
inline constexpr std::size_t kOpKinds = std::variant_size_v<Op>;

/// Matrix-product FLOPs (2 m n k; attention over the full seq x seq): what published TFLOP/s count. 0 for the rest.
Flops matrix_flops(const Op& op);
/// Arithmetic of operations that are not matrix products, counted a few per element; for the cost model only.
Flops vector_flops(const Op& op);
/// Device-memory bytes read and written when every operand moves once, with activations in `compute`.
Bytes traffic(const Op& op, DType compute);
/// Bytes a communication carries in nccl-tests' convention (the full vector); 0 for computation.
Bytes payload(const Op& op);
/// True for Collective, Send and Recv.
bool is_communication(const Op& op);

}  // namespace tandem
