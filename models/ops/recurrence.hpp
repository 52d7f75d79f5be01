#pragma once
// Layers that mix positions by a recurrence. Conventions: models/ops/op.hpp. Formulas: huggingface/transformers,
// modeling_qwen3_next.py (Qwen3NextGatedDeltaNet) and modeling_nemotron_h.py (NemotronHMamba2Mixer).
//
// One product computes [T, mixed + values + scalars] as three matrices: queries, keys and values; a gate of the output; and
// scalars for how much each head forgets and learns. A short convolution over the first follows, then the recurrence, a norm with
// the gate. Columns of the first are ordered (key head, {q, k, its values}, dim); scalars (value head, {forget, [learn]}).
// So a tensor rank has a contiguous block of the rows of each matrix' weight.

#include <cstdint>

#include "models/plan/recurrence.hpp"

namespace tandem {

struct RecurrenceDims {
  RecurrenceRule rule;
  std::int64_t batch, heads, seq;  ///< heads: value heads of this rank
  std::int64_t key_heads;          ///< heads of queries and keys; equal groups of value heads share one
  std::int64_t key_dim, value_dim;

  std::int64_t rows() const { return batch * seq; }
  std::int64_t values() const { return heads * value_dim; }
  /// Value heads that share a head of queries and keys.
  std::int64_t per_key() const { return heads / key_heads; }
  /// Columns that the convolution works on: queries, keys and values.
  std::int64_t mixed() const { return 2 * key_heads * key_dim + values(); }
  /// Scalars per token: for each head how much it forgets and, with the delta rule, how much it learns.
  std::int64_t scalars() const { return heads * (rule == RecurrenceRule::gated_delta ? 2 : 1); }
  /// Columns of the product before the convolution.
  std::int64_t width() const { return mixed() + values() + scalars(); }
  /// Positions per chunk. Kernels compute a chunk by matrix products, from the state before it (fla-org/flash-linear-attention:
  /// fla/ops/gated_delta_rule/chunk.py; NVIDIA/Megatron-LM: megatron/core/ssm/mamba_mixer.py, chunk_size).
  std::int64_t chunk() const { return rule == RecurrenceRule::gated_delta ? 64 : 128; }
  std::int64_t chunks() const { return batch * ((seq + chunk() - 1) / chunk()); }
  /// Pairs of positions within chunks, whether the later one reads the earlier or not.
  std::int64_t pairs() const {
    const std::int64_t last = seq % chunk();
    return batch * (seq / chunk() * chunk() * chunk() + last * last);
  }
  /// FLOPs of a forward pass position by position: the state adds an outer product
  /// and gives an output. The delta rule also reads the state's value for the key.
  std::int64_t needed_flops() const { return rows() * values() * key_dim * (rule == RecurrenceRule::gated_delta ? 6 : 4); }
  /// FLOPs of a forward pass in chunks: `needed_flops` plus products between the positions of a chunk.
  std::int64_t chunked_flops() const {
    if (rule == RecurrenceRule::mamba2) return needed_flops() + 2 * pairs() * (key_heads * key_dim + values());
    // Keys with keys, the inverse applied to keys and to values, queries with keys and those scores with values.
    return needed_flops() + pairs() * (6 * heads * key_dim + 4 * values());
  }
};

/// Convolves each column over its last `taps` positions, then SiLU: y[t] = silu(bias + sum over j of weight[j] x[t - taps + 1 + j]).
/// Positions before the sequence are 0. in: x[rows, mixed], weight[mixed, taps], [bias mixed]; out: y
struct ShortConv { RecurrenceDims dims; std::int64_t taps; bool bias; };
/// in: dy, x, weight, [bias]; out: dx, dweight, [dbias]
struct ShortConvBackward { RecurrenceDims dims; std::int64_t taps; bool bias; };

/// Each value head has a state S[key_dim, value_dim], 0 before the sequence. With u = softplus(forget + step):
/// gated_delta: S *= exp(-exp(decay) u); S += k (sigmoid(learn) (v - S^T k))^T; y = S^T q. q and k are first divided by
/// sqrt(sum of squares + 1e-6), and q by sqrt(key_dim).
/// mamba2: S *= exp(-exp(decay) u); S += k (u v)^T; y = S^T q + skip v.
/// in: x[rows, mixed], scalars[rows, scalars], decay[heads], step[heads], [skip heads with mamba2]; out: y[rows, values]
struct Recurrence { RecurrenceDims dims; };
/// Recomputes the states of chunks. in: dy, x, scalars, decay, step, [skip]; out: dx, dscalars, ddecay, dstep, [dskip]
struct RecurrenceBackward { RecurrenceDims dims; };

/// y = weight * norm(x) * silu(gate) or, with `gate_first`, y = weight * norm(x * silu(gate)). The RMS norm covers each `cols`
/// columns of a row. It has a weight per column, or the same `cols` weights for all parts.
/// in: x[rows, parts*cols], gate, weight; out: y, stats[rows, parts] (1/rms)
struct GatedNorm {
  std::int64_t rows, parts, cols;
  bool same_weights;
  double epsilon;
  bool gate_first = false;
  std::int64_t weights() const { return same_weights ? cols : parts * cols; }
};
/// in: dy, x, gate, weight, stats; out: dx, dgate, dweight
struct GatedNormBackward {
  std::int64_t rows, parts, cols;
  bool same_weights;
  bool gate_first = false;
  std::int64_t weights() const { return same_weights ? cols : parts * cols; }
};

/// y = x * sigmoid(gate), element by element. in: x, gate; out: y
struct SigmoidGate { std::int64_t elements; };
/// in: dy, x, gate; out: dx, dgate
struct SigmoidGateBackward { std::int64_t elements; };

}  // namespace tandem
