#pragma once
// The closed set of operations, with *local* (already sharded) dimensions. Nothing here knows what tensor parallelism
// or a schedule is. Visitors (flops, traffic, the cost model, the CPU reference) are total: an alternative that one of
// them misses does not compile.
//
// Conventions. Matrices are row-major. T = tokens of one micro-batch = batch*seq, rows ordered (sequence, position).
// "in:" and "out:" list a task's operands in order; an operand marked (inout) appears in both lists.
// qkv is [T, (heads + 2 kv_heads)*head_dim] with columns ordered (group, {its query heads, k, v}, dim), which is
// (head, {q,k,v}, dim) where every head has its own keys: a tensor-parallel shard is a contiguous block of rows of the weight.
// kv is [T, 2*kv_heads*head_dim] with columns (group, {k, v}, dim), where keys and values stand apart from the queries.
//
// Rows of hidden states. Under sequence parallelism some operations work on a *sequence shard*: rows [r*T/t, (r+1)*T/t) of
// tensor rank r. Under context parallelism T counts the positions of this context rank only: of 2c equal pieces of the
// sequence, context rank r of c holds the pieces r and 2c-1-r, so that causal attention is as much work on every rank.

#include <cstdint>
#include <string_view>
#include <variant>

#include "models/base/units.hpp"
#include "models/dtype.hpp"
#include "models/mesh.hpp"

namespace tandem {

/// Whose kernels compute attention without a score matrix; they differ in speed alone.
enum class AttentionKernel : std::uint8_t {
  flash1,  ///< FlashAttention's first version
  triton,  ///< flash-attn's in Triton
  flash2,  ///< FlashAttention 2
  tuned,   ///< written for the device's generation: cuDNN's, FlashAttention 3
};

/// Where a random mask is drawn; with (seed, step, layer, global index) it names every random number of a run.
enum class DropoutSite : std::uint8_t {
  embedding, attention, attention_output, mlp_output, cross_attention, cross_attention_output
};

/// C[m,n] = op(A) op(B) (+ bias over columns). op(A) is [m,k], op(B) is [k,n]; trans_x means x is stored transposed.
/// `accumulate`: C, of type `total`, += op(A) op(B): a weight's gradient joins those of earlier micro-batches in the product's own
/// kernel. The product is complete before it is added. `sums`: the sums of op(A)'s rows too, the bias' gradient where A is that
/// of a linear layer's output (A stored transposed).
/// in: A, B, [bias n], [C when accumulate]; out: C, [sums m]
struct MatMul {
  std::int64_t m, n, k;
  bool trans_a = false, trans_b = false, bias = false, accumulate = false;
  DType total = DType::fp32;   ///< of C where it accumulates, else unread
  bool sums = false;
};

/// Column sums. in: dy[rows,cols]; out: dbias[cols]
struct BiasGrad { std::int64_t rows, cols; };

/// `rms`: RMSNorm (arXiv 1910.07467), which takes off no mean (it stands as 0 in stats) and has no beta.
/// in: x[rows,cols], gamma, [beta unless rms]; out: y, stats[rows,2] (mean, 1/std)
struct LayerNorm { std::int64_t rows, cols; double epsilon; bool rms = false; };
/// Both gradients, or one of them where each has a kernel of its own.
/// in: dy, x, stats, [gamma unless parameters], [residual dres]; out: [dx (+= dres when add_residual) unless parameters],
/// [dgamma, [dbeta unless rms] unless input]
enum class NormPart : std::uint8_t { whole, input, parameters };
struct LayerNormBackward { std::int64_t rows, cols; bool add_residual; bool rms = false; NormPart part = NormPart::whole; };

/// Tanh-approximated GELU, ReLU, squared ReLU or tanh. With `bias_cols` the rows of x are so long and a bias is added to them
/// first. in: x, [bias]; out: y
enum class PointwiseKind : std::uint8_t { gelu_tanh, relu, squared_relu, tanh };
struct Pointwise { std::int64_t elements; PointwiseKind kind; std::int64_t bias_cols = 0; };
/// in: dy, x, [bias]; out: dx
struct PointwiseBackward { std::int64_t elements; PointwiseKind kind; std::int64_t bias_cols = 0; };

/// y = act(gate) * up: SwiGLU and GeGLU (arXiv 2002.05202). Columns of x are ordered (unit, {gate, up}), so a
/// tensor-parallel shard is a contiguous block of rows of the weight. in: x[rows, 2*cols]; out: y[rows, cols]
/// In two kernels: a = act(gate) (in: x; out: a[rows, cols]) and y = a * up (in: a, x; out: y).
enum class GateKind : std::uint8_t { silu, gelu_tanh };
enum class GatePart : std::uint8_t { whole, activation, product };
struct GatedPointwise { std::int64_t rows, cols; GateKind kind; GatePart part = GatePart::whole; };
/// in: dy[rows, cols], x[rows, 2*cols]; out: dx[rows, 2*cols]
/// In two kernels: of the product (in: dy, a, x; out: da[rows, cols], dx(writes its up columns)) and of the activation (in: da,
/// x, dx(inout: writes its gate columns); out: dx).
struct GatedPointwiseBackward { std::int64_t rows, cols; GateKind kind; GatePart part = GatePart::whole; };

/// y = factor * (a + b), factor * (a - b), factor * a * b or factor * a * a, b being as large as a, a number for each row or for each column, or
/// absent (then y = factor * a). y may be a. in: a[rows,cols], [b]; out: y[rows,cols]
enum class ElementwiseKind : std::uint8_t { add, subtract, multiply, square };
enum class Spread : std::uint8_t { full, row, column, none };
struct Elementwise { std::int64_t rows, cols; ElementwiseKind kind; Spread other = Spread::full; double factor = 1; };
/// Of each row the sum, or 1 / sqrt(sum / cols + epsilon). in: x[rows,cols]; out: y[rows]
enum class RowReduceKind : std::uint8_t { sum, inverse_root_of_mean };
struct RowReduce { std::int64_t rows, cols; RowReduceKind kind; double epsilon = 0; };

/// Which part of the attention a context rank computes.
enum class AttentionShare : std::uint8_t {
  whole,    ///< everything its tensor rank has
  queries,  ///< its own queries, all heads of its tensor rank (all-gather and ring)
  heads,    ///< its share of the tensor rank's heads, all queries (Ulysses)
};

/// Dimensions shared by the attention operations. heads are local. The operations that keep the score matrix compute all
/// of seq x keys, as the published FLOP counts have it; the flash operations only the (query, key) pairs that are needed.
struct AttentionDims {
  std::int64_t batch, heads, seq, head_dim;  ///< seq: queries of a sequence that this rank computes
  std::int64_t kv_heads = 0;  ///< key and value heads (grouped-query attention), a divisor of heads; 0: as many as heads
  std::int64_t keys = 0;      ///< keys of a sequence; 0: seq
  bool causal = true;         ///< a query sees no key behind its own position
  bool q_packed = true;       ///< q is a qkv tensor; else [batch*seq, heads*head_dim]
  bool kv_packed = true;      ///< kv is a qkv tensor; else [batch*keys, 2*groups*head_dim]
  AttentionShare share = AttentionShare::whole;
  /// Context ranks whose rows follow each other in kv (share queries), or in all operands (share heads): rows are then
  /// ordered (context rank, sequence, position); 1: (sequence, position).
  std::int64_t row_shards = 1;

  std::int64_t groups() const { return kv_heads > 0 ? kv_heads : heads; }
  std::int64_t key_count() const { return keys > 0 ? keys : seq; }
  /// Columns of qkv, of kv where it stands apart, and of the context.
  std::int64_t qkv_width() const { return (heads + 2 * groups()) * head_dim; }
  std::int64_t kv_width() const { return 2 * groups() * head_dim; }
  std::int64_t q_width() const { return heads * head_dim; }
};
/// scores[batch,heads,seq,keys] = q k^T / sqrt(head_dim), undivided unless `scaled`.
/// in: q, kv (the same qkv tensor where both are packed); out: scores
struct AttentionScores { AttentionDims dims; bool scaled = true; };
/// Softmax (causal where dims say so; + ALiBi or relative bias), then dropout. Relative bias: a learned number for each of
/// `relative_buckets` buckets of key position - query position and each head (arXiv 1910.10683 section 2.1; distances from
/// 128 on share a bucket; with causal dims only keys before the query have buckets).
/// in: scores, [table[heads, relative_buckets]]; out: probs, [dropped when dropout > 0]
/// In kernels of their own: bias and mask (out: scores, -inf where a query sees no key), softmax (in: those; out: probs, which may
/// be the same) and dropout (in: probs; out: dropped).
enum class SoftmaxPart : std::uint8_t { whole, mask, softmax, dropout };
struct AttentionSoftmax {
  AttentionDims dims;
  double dropout;
  bool alibi;
  std::int64_t relative_buckets = 0;
  DropoutSite site = DropoutSite::attention;
  SoftmaxPart part = SoftmaxPart::whole;
};
/// context[batch*seq, heads*head_dim] = probs v. in: probs (dropped ones where there are), kv; out: context
struct AttentionContext { AttentionDims dims; };
/// in: dcontext, probs (as AttentionContext read them), kv; out: dprobs, dkv (writes its v part)
struct AttentionContextBackward { AttentionDims dims; };
/// in: dprobs, probs (before dropout); out: dscores, [dtable[heads, relative_buckets]]
/// Dropout in a kernel of its own: in: dprobs; out: the same without what was dropped. The rest is then a whole one without it.
struct AttentionSoftmaxBackward {
  AttentionDims dims;
  double dropout;
  std::int64_t relative_buckets = 0;
  DropoutSite site = DropoutSite::attention;
  SoftmaxPart part = SoftmaxPart::whole;
};
/// in: dscores, q, kv, dkv; out: dq (written), dkv (inout: writes its k part). Both packed: dq and dkv are the same tensor.
struct AttentionScoresBackward { AttentionDims dims; bool scaled = true; };

/// Attention that keeps no scores (FlashAttention, arXiv 2205.14135), with ring steps (arXiv 2310.01889): with
/// ring_step i >= 0 the keys are those of context rank (r - i) mod c, and from step 1 on the result is merged into what
/// the earlier steps left. stats[batch, heads, seq]: log of the sum of exponentials so far.
/// in: q, kv, [context, stats when ring_step > 0]; out: context, stats
/// `deterministic`: one whose sums have the same order every time (here all have).
struct FlashAttention {
  AttentionDims dims;
  double dropout;
  bool alibi;
  int ring_step = -1;
  DropoutSite site = DropoutSite::attention;
  AttentionKernel kernel = AttentionKernel::flash2;
  bool deterministic = false;
};
/// Recomputes the probabilities from stats. With ring_step i >= 0, adds to dq from step 1 on, and to dkv, which travels
/// with its keys, from step 1 on. context and stats are the finished ones.
/// in: dcontext, q, kv, context, stats, [dq, dkv when ring_step > 0]; out: dq, dkv (both packed: the same tensor)
struct FlashAttentionBackward {
  AttentionDims dims;
  double dropout;
  bool alibi;
  int ring_step = -1;
  DropoutSite site = DropoutSite::attention;
  AttentionKernel kernel = AttentionKernel::flash2;
  bool deterministic = false;
};

/// kv[rows, kv_width] out of qkv. in: qkv; out: kv
struct SplitKv { std::int64_t rows; AttentionDims dims; };
/// Its gradient. in: dkv, dqkv(inout: writes k and v parts); out: dqkv
struct MergeKv { std::int64_t rows; AttentionDims dims; };
/// y[parts, rows, cols/parts] from x[rows, cols]: columns that go to one peer lie together. in: x; out: y
struct PackColumns { std::int64_t rows, cols, parts; };
/// The inverse. in: y[parts, rows, cols/parts]; out: x[rows, cols]
struct UnpackColumns { std::int64_t rows, cols, parts; };

/// Rotary position embedding (arXiv 2104.09864) of the query and key heads, halves paired: (i, i + head_dim/2) turns by
/// position * theta^(-2i/head_dim). `inverse`: the gradient, which turns back. Rows are of this context rank, before anything is
/// exchanged. `scaling`: linear divides the position by factor; llama3 scales frequencies by wavelength (Llama 3.1, arXiv
/// 2407.21783 as published with its weights: low 1, high 4); yarn scales those that turn less than once in `original` positions, keeps
/// those that turn more than 32 times, goes linearly from pair to pair between them, and multiplies queries and keys by
/// 1 + 0.1 ln(factor) (arXiv 2309.00071, sections 3.2 and 3.4). in: qkv (inout); out: qkv
/// In kernels of their own, for the query or for the key heads, with t[batch*seq, those heads' columns]: t = (-second half, first
/// half) of every head (in: qkv; out: t), qkv *= cos (in: qkv(inout); out: qkv), t *= sin (in: t(inout); out: t), and
/// qkv += t (in: t, qkv(inout); out: qkv).
enum class RopeScalingKind : std::uint8_t { none, linear, llama3, yarn };
enum class RotaryPart : std::uint8_t { whole, swap, cosine, sine, add };
enum class RotaryHeads : std::uint8_t { both, queries, keys };
struct Rotary {
  AttentionDims dims;
  double theta;
  bool inverse = false;
  RopeScalingKind scaling = RopeScalingKind::none;
  double factor = 1;
  RotaryPart part = RotaryPart::whole;
  RotaryHeads heads = RotaryHeads::both;
  std::int64_t original = 8192;  ///< llama3 and yarn: longest sequence before the scaling
  /// Elements that a kernel turns.
  std::int64_t elements() const {
    const std::int64_t q = heads == RotaryHeads::keys ? 0 : dims.heads, k = heads == RotaryHeads::queries ? 0 : dims.groups();
    return dims.batch * dims.seq * (q + k) * dims.head_dim;
  }
};

/// y = dropout(x + bias) + residual, nothing added unless `residual`. `shard`: rows are a sequence shard.
/// in: x[rows,cols], [bias when bias], [residual]; out: y
struct BiasDropoutAdd {
  std::int64_t rows, cols;
  double dropout;
  bool bias;
  DropoutSite site;
  bool shard = false, residual = true;
};
/// dx = mask * dy / (1-p). in: dy; out: dx, [dbias when bias]
struct BiasDropoutAddBackward { std::int64_t rows, cols; double dropout; bool bias; DropoutSite site; bool shard = false; };
/// BiasDropoutAdd, and the norm of its result, in one kernel.
/// in: x[rows,cols], [bias when bias], residual, gamma, [beta unless rms]; out: sum, y, stats[rows,2]
struct BiasDropoutAddNorm {
  std::int64_t rows, cols;
  double dropout;
  bool bias;
  DropoutSite site;
  bool shard = false;
  double epsilon = 0;
  bool rms = false;
  BiasDropoutAdd add() const { return {rows, cols, dropout, bias, site, shard}; }
  LayerNorm norm() const { return {rows, cols, epsilon, rms}; }
};

/// Rows of a vocabulary shard; tokens outside the shard give zero rows. The shard of tensor rank t starts at
/// t*vocab_rows; a `whole` table has all rows on every rank. `add`: y += rows.
/// in: tokens[T] (int32), table[vocab_rows, hidden], [y when add]; out: y[T, hidden]
struct Embedding { std::int64_t tokens, hidden, vocab_rows; bool whole = false, add = false; };
/// dtable is zeroed, then tokens are added in ascending order. in: tokens, dy; out: dtable
struct EmbeddingBackward { std::int64_t tokens, hidden, vocab_rows; bool whole = false; };
/// y = dropout(x + position[pos]) (position omitted when !learned). seq: positions of this context rank; rows = batch*seq, or
/// a sequence shard of them. in: x[rows, hidden], [table[max_positions, hidden]]; out: y
struct PositionDropout { std::int64_t batch, seq, hidden; double dropout; bool learned; bool shard = false; std::int64_t rows = 0; };
/// in: dy; out: dx, [dposition[max_positions, hidden] when learned; rows nobody here uses are zeroed]
struct PositionDropoutBackward {
  std::int64_t batch, seq, hidden, max_positions;
  double dropout;
  bool learned;
  bool shard = false;
  std::int64_t rows = 0;
};
/// The first row of every sequence: y[batch, hidden] = x[batch, 0, hidden]. in: x[batch*seq, hidden]; out: y
struct TakeFirst { std::int64_t batch, seq, hidden; };
/// Adds dy to the first rows. in: dy, dx(inout); out: dx
struct TakeFirstBackward { std::int64_t batch, seq, hidden; };

/// Shared by the three vocabulary-parallel loss operations: rows = T, cols = columns of this shard (padded),
/// `vocab_size` the unpadded vocabulary: columns at or beyond it take no part. `whole`: every rank has all columns. A row
/// whose target is negative has no loss and no gradient.
struct VocabDims { std::int64_t rows, cols, vocab_size; bool whole = false; };
/// in: logits; out: max[rows]
struct VocabMax { VocabDims dims; };
/// in: logits, max (global), targets (int32); out: sums[2,rows] = (sum exp(x-max), target logit - max or 0)
struct VocabExpSum { VocabDims dims; };
/// Loss and its gradient, both already divided by the targets of the *global* batch, so they are only ever summed.
/// in: logits, max, sums (global), targets; out: loss[1] fp64 (inout unless `first`), dlogits[rows,cols]
/// `one_kernel`: with maximum and sums in the same kernel, every column being here. in: logits, targets, [loss]; out: as above
struct CrossEntropy { VocabDims dims; std::int64_t global_tokens; bool first; bool one_kernel = false; };

/// destination += source (or = source: `overwrite`), converting to the destination's type.
/// in: source, [destination(inout) unless overwrite]; out: destination
struct Accumulate { std::int64_t elements; DType source, destination; bool overwrite = false; };

/// destination = 0 or, `nan`, all bits 1: NaN, -1 in integers. in: none; out: destination
struct Fill { std::int64_t elements; DType dtype; bool nan = false; };

// ---- experts ----

/// Sizes of one layer of experts on one rank. capacity: rows an expert takes from the tokens of one rank, 0: dropless.
struct MoeDims {
  std::int64_t tokens, hidden, experts, top_k, capacity;
  /// Rows handed to experts: a fixed number for each, or one for every choice of every token.
  std::int64_t rows() const { return capacity > 0 ? experts * capacity : tokens * top_k; }
};
/// Softmax over the experts, then the top_k largest (the lower index wins a tie); weights are their probabilities, divided
/// by their sum when top_k > 1. With a capacity, choices beyond it (in ascending token, then choice) are dropped: slot -1.
/// slots: the row of dispatch that a choice takes: expert*capacity + position, or its place in order of (expert, token).
/// in: logits[tokens, experts]; out: probs[tokens, experts], weights[tokens, top_k], slots[tokens, top_k] (int32),
/// counts[experts] (int32; choices of each expert, dropped ones too)
struct TopKRouter { MoeDims dims; };
/// With the load-balancing loss aux_loss * experts * sum_e f_e P_e (Switch, arXiv 2101.03961 eq. 4; f: share of choices, P: mean
/// probability), scaled by 1/micro_batches: parts of the global batch as large as `tokens`. f is a constant to the gradient.
/// in: dweights[tokens, top_k], probs, weights, slots, counts (f's: of all that route), logits; out: dlogits[tokens, experts]
struct TopKRouterBackward { MoeDims dims; double aux_loss; std::int64_t micro_batches; };
/// Rows of tokens where slots put them; rows nobody takes are 0. in: x[tokens, hidden], slots; out: rows[dims.rows(), hidden]
struct MoeDispatch { MoeDims dims; };
/// in: drows, slots; out: dx[tokens, hidden] (sum over choices, ascending)
struct MoeDispatchBackward { MoeDims dims; };
/// y = sum over choices of weight * row. in: rows[dims.rows(), hidden], slots, weights; out: y[tokens, hidden]
struct MoeCombine { MoeDims dims; };
/// in: dy, rows, slots, weights; out: drows (rows nobody takes: 0), dweights[tokens, top_k]
struct MoeCombineBackward { MoeDims dims; };
/// Products with one matrix for each expert. Without `ragged`: groups of m rows, group g with matrix g % experts
/// (groups = experts x the ranks the rows came from): C[groups,m,n] = A[groups,m,k] op(B[experts]). With `ragged`: rows are in
/// order of (rank they came from, expert), counts[rank, expert] of them; groups = ranks they came from, and m is the planned
/// number of all rows: exact on one rank, an even share on several. B is [experts,k,n], or [experts,n,k] when trans_b.
/// in: A, B, [counts[groups, experts] int32 when ragged]; out: C
struct GroupedMatMul {
  std::int64_t groups, experts, m, n, k;
  bool trans_b = false, ragged = false;
  std::int64_t rows() const { return ragged ? m : groups * m; }
};
/// dW[experts,n,k] = sum over an expert's rows of dy^T x, groups ascending; `accumulate`: added to dW, of type `total`, when
/// complete. in: dy[groups,m,n], x[groups,m,k], [counts], [dW when accumulate]; out: dW
struct GroupedWeightGrad {
  std::int64_t groups, experts, m, n, k;
  bool ragged = false, accumulate = false;
  DType total = DType::fp32;   ///< of dW where it accumulates, else unread
  std::int64_t rows() const { return ragged ? m : groups * m; }
};
/// x += the bias of each row's expert, rows as in GroupedMatMul. `once`: only on the first of the ranks
/// that share the experts' matrices, where x is a partial sum.
/// in: x[groups,m,n](inout), bias[experts,n], [counts]; out: x
struct GroupedBias {
  std::int64_t groups, experts, m, n;
  bool once = false, ragged = false;
  std::int64_t rows() const { return ragged ? m : groups * m; }
};
/// in: dy[groups,m,n], [counts]; out: dbias[experts,n]
struct GroupedBiasGrad {
  std::int64_t groups, experts, m, n;
  bool ragged = false;
  std::int64_t rows() const { return ragged ? m : groups * m; }
};

// ---- update ----
// Gradients, weights and states are read and written in the pieces of parameters that the rank holds (ParamPiece).

/// Words of an exact sum of doubles: fixed point over the whole range of fp64, 32 bits a word in 64, and a last word that
/// counts what is not finite. Sums of such vectors are exact, so a norm does not depend on how a model is split.
inline constexpr std::int64_t kExactWords = 68;

/// Sum of squares of the gradients that this rank counts, each 64-element block of a region rounded to fp64 and the blocks
/// added exactly. in: gradients; out: sum[kExactWords] (int64)
struct GradNorm { std::int64_t elements; DType gradients = DType::fp32; };
/// sum -> scalars grad_norm, clip_coefficient, found_nonfinite. in: sum[kExactWords]; out: none
struct ClipCoefficient { double clip_grad; };
/// One AdamW update of all parameters of the rank, a no-op under found_nonfinite. Decay applies to matrices only.
/// in: gradients, then as out; out: weights, exp_avg, exp_avg_sq, [master] (all inout)
struct AdamW {
  std::int64_t elements;            ///< of the states
  double beta1, beta2, epsilon, weight_decay;
  bool master;
  DType gradients = DType::fp32, weights = DType::fp32, state = DType::fp32;
};
/// SGD with momentum (PyTorch's: buffer = momentum*buffer + gradient). in: gradients, then as out; out: weights, [buffer when
/// momentum > 0], [master]
struct Sgd {
  std::int64_t elements;
  double momentum, weight_decay;
  bool master;
  DType gradients = DType::fp32, weights = DType::fp32, state = DType::fp32;
};
/// LAMB (arXiv 1904.00962) and LANS (arXiv 2006.13484) scale each tensor's update by its norm.
enum class LayerwiseKind : std::uint8_t { lamb, lans };
/// Sums of squares of every parameter's gradient, counted once in the norm group (LANS normalises by them).
/// in: gradients; out: sums[global_parameters, kExactWords] (int64)
struct TensorNorms { std::int64_t elements, global_parameters; DType gradients = DType::fp32; };
/// Updates the moments and sums the squares of weights and updates of every parameter: LAMB w, u; LANS w, r + decay*w, c + decay*w.
/// in: gradients, weights (or master), exp_avg, exp_avg_sq, [gradient sums of TensorNorms for LANS];
/// out: exp_avg, exp_avg_sq (inout), sums[global_parameters, norms(), kExactWords] (int64)
struct LayerwiseMoments {
  LayerwiseKind kind;
  std::int64_t elements, global_parameters;
  double beta1, beta2, epsilon, weight_decay;
  bool master;
  DType gradients = DType::fp32, weights = DType::fp32, state = DType::fp32;
  std::int64_t norms() const { return kind == LayerwiseKind::lamb ? 2 : 3; }
};
/// in: gradients, exp_avg, exp_avg_sq, sums (reduced), [gradient sums for LANS], weights, [master]; out: weights, [master]
struct LayerwiseApply {
  LayerwiseKind kind;
  std::int64_t elements, global_parameters;
  double beta1, beta2, epsilon, weight_decay;
  bool master;
  DType gradients = DType::fp32, weights = DType::fp32, state = DType::fp32;
  std::int64_t norms() const { return kind == LayerwiseKind::lamb ? 2 : 3; }
};

/// `shift`: every member's buffer goes to the next member, cyclically.
enum class CollectiveKind : std::uint8_t { all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, shift };
enum class Reduce : std::uint8_t { sum, max };
/// `elements` is nccl-tests' "size": the full vector. in: what the member gives; out: what it gets.
///   all_reduce, broadcast   in and out are one buffer of `elements`
///   all_gather              in: its share, elements/n; out: all shares in order of the members; in may lie at its place in out
///   reduce_scatter          in: elements; out: its share of the sum, elements/n; out may lie at its place in in
///   all_to_all              in: n shares by receiver; out: n shares by sender, another buffer
///   all_to_all, row > 0     rows of `row` elements, as many to each member as counts say. in: rows by receiver, sent counts,
///                           received counts (int32, equally many for each member); out: rows by sender. `elements`: sent by
///                           dispatch, received by return (`back`); the other side has room for more (DeviceError beyond it)
///   gather, scatter, row > 0  in: rows, counts of all members; `elements`: planned; whole and share are buffers apart
///   shift                   in: elements; out: the previous member's, another buffer
/// `chunked`: a stack that overlaps cuts it and the product it feeds or follows into pieces that run side by side; the runtime
/// performs it whole.
struct Collective {
  CollectiveKind kind;
  Group group;
  std::int64_t elements;
  DType dtype;
  Reduce reduce = Reduce::sum;
  std::int64_t row = 0;
  bool chunked = false;
  bool back = false;
};
/// Rendezvous with the stage `stage_offset` away (+1 or -1; the last stage and the first are neighbours). in: buffer
struct Send { std::int64_t elements; DType dtype; int stage_offset; };
/// out: buffer
struct Recv { std::int64_t elements; DType dtype; int stage_offset; };
/// Between the device and its host's memory, which the arena does not hold. in: buffer when to_host; out: buffer otherwise
struct HostCopy { std::int64_t elements; DType dtype; bool to_host; };

using Op = std::variant<MatMul, BiasGrad, LayerNorm, LayerNormBackward, Pointwise, PointwiseBackward,
                        GatedPointwise, GatedPointwiseBackward, Elementwise, RowReduce, AttentionScores,
                        AttentionSoftmax, AttentionContext, AttentionContextBackward, AttentionSoftmaxBackward,
                        AttentionScoresBackward, FlashAttention, FlashAttentionBackward, SplitKv, MergeKv, PackColumns,
                        UnpackColumns, Rotary, BiasDropoutAdd, BiasDropoutAddBackward, BiasDropoutAddNorm, Embedding, EmbeddingBackward,
                        PositionDropout, PositionDropoutBackward, TakeFirst, TakeFirstBackward, VocabMax, VocabExpSum,
                        CrossEntropy, Accumulate, Fill, TopKRouter, TopKRouterBackward, MoeDispatch, MoeDispatchBackward,
                        MoeCombine, MoeCombineBackward, GroupedMatMul, GroupedWeightGrad, GroupedBias, GroupedBiasGrad, GradNorm, ClipCoefficient, AdamW,
                        Sgd, TensorNorms, LayerwiseMoments, LayerwiseApply, Collective, Send, Recv, HostCopy>;

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

}  // namespace tandem
