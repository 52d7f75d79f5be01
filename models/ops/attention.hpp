#pragma once
// Attention with and without a score matrix, packing of its tensors, head norms, rotary embedding. Conventions: models/ops/op.hpp.

#include <cmath>
#include <cstdint>

#include "models/ops/dropout_site.hpp"
#include "models/ops/window.hpp"
#include "models/plan/attention_kernel.hpp"

namespace tandem {

/// Which part of the attention a context rank computes.
enum class AttentionShare : std::uint8_t {
  whole,    ///< all queries and heads of its tensor rank
  queries,  ///< its own queries, all heads of its tensor rank (all-gather and ring), or its share of both (`head_ranks`)
  heads,    ///< its share of the tensor rank's heads, all queries (Ulysses)
};

/// Sizes of attention operations. `heads` counts this rank's. Operations with a score matrix compute all seq x keys
/// scores, as in published FLOP counts. Flash attention computes only the (query, key) pairs that the mask allows.
struct AttentionDims {
  std::int64_t batch, heads, seq, head_dim;  ///< seq: queries of a sequence that this rank computes
  std::int64_t kv_heads = 0;  ///< key and value heads (grouped-query attention), a divisor of heads; 0: as many as heads
  std::int64_t keys = 0;      ///< keys of a sequence; 0: seq
  bool causal = true;         ///< a query sees no later keys
  bool q_packed = true;       ///< q is a qkv tensor; else [batch*seq, heads*head_dim]
  bool kv_packed = true;      ///< kv is a qkv tensor; else [batch*keys, groups*(head_dim + value_width)]
  AttentionShare share = AttentionShare::whole;
  /// Number of context ranks whose rows are concatenated: in kv (share `queries`) or in all operands
  /// (share `heads`). Rows are then ordered (context rank, sequence, position); 1: (sequence, position).
  std::int64_t row_shards = 1;
  std::int64_t window = 0;    ///< most keys that a query sees under causal attention, its own included; 0: all earlier ones
  bool chunked = false;       ///< windows start at multiples of `window`: a query sees only its own chunk
  std::int64_t value_dim = 0; ///< width of a value; 0: head_dim

  std::int64_t block = 0;     ///< keys per block, which an indexer chooses for each key head; 0: single keys for all heads
  bool documents = false;     ///< causal: a query sees only its own document, whose positions count from 0
  /// Share `queries`: number of neighbouring context ranks that divide the heads and have each other's queries. Such groups
  /// hold pieces of the sequence as ranks do (`exec/data/sequence_map.hpp`).
  std::int64_t head_ranks = 1;
  double score_scale = 0;     ///< factor of q k^T; 0: 1 / sqrt(head_dim)

  double score_factor() const { return score_scale != 0 ? score_scale : 1 / std::sqrt(static_cast<double>(head_dim)); }
  /// Number of context ranks whose rows the queries have. The same ranks divide the heads among themselves.
  std::int64_t query_shards() const {
    return share == AttentionShare::heads ? row_shards : share == AttentionShare::queries ? head_ranks : 1;
  }

  /// Length of a query's list of keys that an indexer chose (models/ops/indexer.hpp):
  /// one entry for each key that it sees, or for each block and key head.
  std::int64_t listed_keys() const {
    const std::int64_t keys_seen = window > 0 ? window : key_count();
    return block == 0 ? keys_seen : groups() * ((keys_seen + block - 1) / block);
  }
  /// Position of the first key that a query at `position` sees.
  std::int64_t first_key(std::int64_t position) const { return first_key_seen(position, window, chunked); }
  std::int64_t groups() const { return kv_heads > 0 ? kv_heads : heads; }
  std::int64_t key_count() const { return keys > 0 ? keys : seq; }
  std::int64_t value_width() const { return value_dim > 0 ? value_dim : head_dim; }
  /// Query heads that share a key head.
  std::int64_t per_group() const { return heads / groups(); }
  /// Columns of a key head and its value in kv; `group_width`: the same in qkv, with the query heads that share them.
  std::int64_t pair_width() const { return head_dim + value_width(); }
  std::int64_t group_width() const { return per_group() * head_dim + pair_width(); }
  /// Columns of qkv, of separate kv, of separate queries, and of attention's output.
  std::int64_t qkv_width() const { return groups() * group_width(); }
  std::int64_t kv_width() const { return groups() * pair_width(); }
  std::int64_t q_width() const { return heads * head_dim; }
  std::int64_t context_width() const { return heads * value_width(); }
  /// First column of a query head in qkv, and of a key head in qkv or separate kv. The key's value follows it.
  std::int64_t query_column(std::int64_t head) const { return head / per_group() * group_width() + head % per_group() * head_dim; }
  std::int64_t key_column(std::int64_t group) const {
    return kv_packed ? group * group_width() + per_group() * head_dim : group * pair_width();
  }
};
/// scores[batch,heads,seq,keys] = q k^T * dims.score_factor(), or without the factor unless `scaled`.
/// in: q, kv (the same qkv tensor where both are packed); out: scores
struct AttentionScores { AttentionDims dims; bool scaled = true; };
/// Softmax (causal where dims say so; + ALiBi or relative bias), then dropout. Relative bias: a learned number for each of
/// `relative_buckets` buckets of key position - query position and each head (arXiv 1910.10683 section 2.1; distances from
/// 128 on share a bucket; with causal dims only keys before the query have buckets).
/// in: scores, [table[heads, relative_buckets]]; out: probs, [dropped when dropout > 0]
/// As separate kernels: mask adds bias and mask (out: scores, -inf where a query sees no key),
/// softmax (in: scores; out: probs, may be the same buffer), dropout (in: probs; out: dropped).
enum class SoftmaxPart : std::uint8_t { whole, mask, softmax, dropout };
struct AttentionSoftmax {
  AttentionDims dims;
  double dropout;
  bool alibi;
  std::int64_t relative_buckets = 0;
  DropoutSite site = DropoutSite::attention;
  SoftmaxPart part = SoftmaxPart::whole;
};
/// context[batch*seq, heads*value_width] = probs v. in: probs (after dropout), kv; out: context
struct AttentionContext { AttentionDims dims; };
/// in: dcontext, probs (as AttentionContext read them), kv; out: dprobs, dkv (writes its v part)
struct AttentionContextBackward { AttentionDims dims; };
/// in: dprobs, probs (before dropout); out: dscores, [dtable[heads, relative_buckets]]
/// Part `dropout`, a separate kernel: in: dprobs; out: dprobs without dropped ones. The rest is then `whole` with dropout 0.
struct AttentionSoftmaxBackward {
  AttentionDims dims;
  double dropout;
  std::int64_t relative_buckets = 0;
  DropoutSite site = DropoutSite::attention;
  SoftmaxPart part = SoftmaxPart::whole;
};
/// in: dscores, q, kv, dkv; out: dq (written), dkv (inout: writes its k part). Both packed: dq and dkv are the same tensor.
struct AttentionScoresBackward { AttentionDims dims; bool scaled = true; };

/// Attention without a stored score matrix (FlashAttention, arXiv 2205.14135), also as steps of a ring (arXiv
/// 2310.01889): with ring_step i >= 0 the keys are those of context rank (r - i head_ranks) mod c, and from step 1 on the result
/// is merged with the earlier steps'. stats[batch, heads, seq]: log of the sum of exponentials so far.
/// `sinks`: a learned logit for each head in its softmax, without a value (arXiv 2309.17453; gpt-oss). The tensor has
/// all heads of the tensor rank; context ranks that split the heads read their own.
/// `chosen`: a query sees the keys in its list, chosen[batch*seq, listed_keys] of int32 (IndexTopK), not the last ones.
/// in: q, kv, [context, stats when ring_step > 0], [sinks], [chosen]; out: context, stats
/// `deterministic`: the kernel adds in a fixed order (Tandem's own ones always do).
struct FlashAttention {
  AttentionDims dims;
  double dropout;
  bool alibi;
  int ring_step = -1;
  DropoutSite site = DropoutSite::attention;
  AttentionKernel kernel = AttentionKernel::flash2;
  bool deterministic = false;
  bool sinks = false;
  double soft_cap = 0;   ///< scores become cap * tanh(score / cap) before bias and mask; 0: no cap
  bool chosen = false;
};
/// Recomputes the probabilities from stats. From ring_step 1 on, adds to dq, and to dkv,
/// which travels with its keys. context and stats are those after the last ring step.
/// in: dcontext, q, kv, context, stats, [dq, dkv when ring_step > 0], [sinks], [chosen];
/// out: dq, dkv (both packed: the same tensor), [dsinks: the part from this rank's queries]
struct FlashAttentionBackward {
  AttentionDims dims;
  double dropout;
  bool alibi;
  int ring_step = -1;
  DropoutSite site = DropoutSite::attention;
  AttentionKernel kernel = AttentionKernel::flash2;
  bool deterministic = false;
  bool sinks = false;
  double soft_cap = 0;
  bool chosen = false;
};

/// Copies kv[rows, kv_width] out of qkv. in: qkv; out: kv
struct SplitKv { std::int64_t rows; AttentionDims dims; };
/// Gradient of SplitKv. in: dkv, dqkv(inout: writes k and v parts); out: dqkv
struct MergeKv { std::int64_t rows; AttentionDims dims; };
/// Sorts the columns of x[rows, cols] by receiving peer: y[parts, rows, part_cols]. Each `repeat`
/// neighbouring peers share `common` columns, as context ranks share a key head. For such peers x has
/// each one's own columns, then the common ones. In y all of them get the common columns after their own.
struct ColumnParts {
  std::int64_t rows, cols, parts;
  std::int64_t repeat = 1, common = 0;
  bool common_first = false;  ///< in x and y the common columns come before the own ones

  constexpr std::int64_t groups() const { return parts / repeat; }
  constexpr std::int64_t group_cols() const { return cols / groups(); }
  constexpr std::int64_t own() const { return (group_cols() - common) / repeat; }
  constexpr std::int64_t part_cols() const { return own() + common; }
  constexpr bool divides() const { return parts % repeat == 0 && cols % groups() == 0 && (group_cols() - common) % repeat == 0; }
  /// First own and first common column of peer `part` in x; the same two in its part of y.
  constexpr std::int64_t own_column(std::int64_t part) const {
    return part / repeat * group_cols() + (common_first ? common : 0) + part % repeat * own();
  }
  constexpr std::int64_t common_column(std::int64_t part) const {
    return part / repeat * group_cols() + (common_first ? 0 : repeat * own());
  }
  constexpr std::int64_t own_place() const { return common_first ? common : 0; }
  constexpr std::int64_t common_place() const { return common_first ? 0 : own(); }
  /// Elements of x and y.
  constexpr std::int64_t whole() const { return rows * cols; }
  constexpr std::int64_t parted() const { return parts * rows * part_cols(); }
};
/// x to y: the columns for one peer become contiguous. in: x; out: y
struct PackColumns : ColumnParts {};
/// y to x. Copies of a common column from several peers are added in their order. in: y; out: x
struct UnpackColumns : ColumnParts {};

/// Whether a head norm also norms values, always without a weight (huggingface/transformers: models/gemma4,
/// Gemma4TextAttention). own: norms the values. of_keys: values are the normed keys before their weight.
enum class NormedValues : std::uint8_t { none, own, of_keys };
/// RMS norm (arXiv 1910.07467) of every query and key head of qkv, with a weight vector for queries and one for keys unless
/// `plain`. `kept`: queries and keys before it, [batch*seq, (heads + groups)*head_dim], columns (group, {its queries, k}, dim).
/// in: qkv(inout), [gamma_q[head_dim], gamma_k[head_dim]]; out: qkv, kept. Rows are of this context rank.
/// `values` own: kept has values, too, columns (group, {its queries, k, v}, dim). of_keys: in: kept, gamma_q, gamma_k; out: qkv
struct HeadNorm {
  AttentionDims dims;
  double epsilon;
  bool plain = false;
  NormedValues values = NormedValues::none;
  std::int64_t tokens() const { return dims.batch * dims.seq; }
  std::int64_t rows() const { return tokens() * (dims.heads + dims.groups()); }
  /// Elements of `kept`; `written`: elements that the norm writes.
  std::int64_t elements() const {
    return rows() * dims.head_dim + (values == NormedValues::own ? tokens() * dims.groups() * dims.value_width() : 0);
  }
  std::int64_t written() const { return values == NormedValues::of_keys ? tokens() * dims.qkv_width() : elements(); }
};
/// in: dqkv(inout), kept, [gamma_q, gamma_k]; out: dqkv, [dgamma_q, dgamma_k]
/// `values` of_keys: in: dqkv, kept, gamma_q, gamma_k; out: dkept, dgamma_q, dgamma_k
struct HeadNormBackward {
  AttentionDims dims;
  double epsilon;
  bool plain = false;
  NormedValues values = NormedValues::none;
  HeadNorm forward() const { return {dims, epsilon, plain, values}; }
  std::int64_t rows() const { return forward().rows(); }
  std::int64_t elements() const { return forward().elements(); }
};

/// RMS norm over all heads of a token's queries as one row, and of its keys (OLMo 2, arXiv 2501.00656 section 2.1). Tensor
/// ranks hold different heads, so the sums of squares need a sum over ranks. This operation computes a rank's part.
/// in: qkv; out: sums[batch*seq, 2]: sums of squares of its queries and of its keys
struct RowNormSums {
  AttentionDims dims;
  std::int64_t rows() const { return dims.batch * dims.seq; }
  std::int64_t elements() const { return HeadNorm{dims, 0}.elements(); }
};
/// `ranks`: ranks that the sums cover. Keys held by several of them count as often in sum and mean. `kept` as in HeadNorm.
/// in: qkv(inout), gamma_q[heads*head_dim], gamma_k[groups*head_dim], sums (of all ranks); out: qkv, kept
struct RowNorm {
  AttentionDims dims;
  std::int64_t ranks;
  double epsilon;
  std::int64_t rows() const { return dims.batch * dims.seq; }
  std::int64_t elements() const { return HeadNorm{dims, 0}.elements(); }
  std::int64_t weights() const { return (dims.heads + dims.groups()) * dims.head_dim; }
};
/// dots[batch*seq, 2]: sums of dy * gamma * x over this rank's queries, and its keys. in: dqkv, kept, gamma_q, gamma_k; out: dots
struct RowNormDots {
  AttentionDims dims;
  std::int64_t rows() const { return dims.batch * dims.seq; }
  std::int64_t elements() const { return HeadNorm{dims, 0}.elements(); }
};
/// in: dqkv(inout), kept, gamma_q, gamma_k, sums, dots (both of all ranks); out: dqkv, dgamma_q, dgamma_k
struct RowNormBackward {
  AttentionDims dims;
  std::int64_t ranks;
  double epsilon;
  std::int64_t rows() const { return dims.batch * dims.seq; }
  std::int64_t elements() const { return HeadNorm{dims, 0}.elements(); }
  std::int64_t weights() const { return RowNorm{dims, ranks, epsilon}.weights(); }
};

/// Joins latent attention's queries, keys and values (arXiv 2405.04434, section 2.1) in qkv. q is multiplied by
/// `query_scale`. The first `turned` (rotary) dimensions of all key heads are one vector per token, k_turned. kv has the
/// other dimensions of each key head, and the values. Each query head has its own key head. Rows are of this context rank.
/// in: q[rows, heads*head_dim], kv[rows, heads*(head_dim - turned + value_width)], columns (head, {k, v}, dim),
/// k_turned[rows, turned]; out: qkv
struct LatentHeads {
  AttentionDims dims;
  std::int64_t turned;
  double query_scale = 1;
  std::int64_t rows() const { return dims.batch * dims.seq; }
  std::int64_t kv_width() const { return dims.heads * (dims.pair_width() - turned); }
};
/// in: dqkv; out: dq, dkv, dk_turned (the sum over this rank's heads)
struct LatentHeadsBackward {
  AttentionDims dims;
  std::int64_t turned;
  double query_scale = 1;
  std::int64_t rows() const { return dims.batch * dims.seq; }
  std::int64_t kv_width() const { return LatentHeads{dims, turned}.kv_width(); }
};

/// Rotary position embedding (arXiv 2104.09864) of query and key heads. Of the first r dimensions (i, i + r/2) are a pair,
/// rotated by position * theta^(-2i/r); r is `turned` or head_dim. `inverse`: the gradient, which rotates back. Rows are
/// of this context rank, before context parallelism exchanges anything. `scaling` linear: divides positions by factor.
/// llama3: scales frequencies by wavelength (Llama 3.1, arXiv 2407.21783 as published with its weights: low 1, high 4).
/// yarn (arXiv 2309.00071, sections 3.2 and 3.4): scales pairs that rotate less than once in `original` positions, keeps
/// those above 32 rotations, interpolates linearly between, and multiplies queries and keys by 1 + 0.1 ln(factor).
/// in: qkv (inout); out: qkv. RotaryHeads::queries with separate queries: in: q (inout); out: q
/// As four kernels, for query or for key heads, with t[batch*seq, columns of these heads]:
/// swap: t = (-second half, first half) of each head (in: qkv; out: t). cosine: qkv *= cos (in: qkv(inout); out: qkv).
/// sine: t *= sin (in: t(inout); out: t). add: qkv += t (in: t, qkv(inout); out: qkv).
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
  std::int64_t turned = 0;       ///< rotated dimensions of a head; 0: all
  bool keeps_length = false;     ///< yarn: do not multiply queries and keys by 1 + 0.1 ln(factor)
  double fast = 0, slow = 0;     ///< yarn: pairs above `fast` rotations keep their frequency, those below `slow` scale; 0: 32, 1
  bool fractional = false;       ///< yarn: the blend begins and ends between pairs, without rounding outwards
  std::int64_t width() const { return turned > 0 ? turned : dims.head_dim; }
  /// Elements that the kernel rotates.
  std::int64_t elements() const {
    const std::int64_t q = heads == RotaryHeads::keys ? 0 : dims.heads, k = heads == RotaryHeads::queries ? 0 : dims.groups();
    return dims.batch * dims.seq * (q + k) * width();
  }
};

}  // namespace tandem
