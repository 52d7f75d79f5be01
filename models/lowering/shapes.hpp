#pragma once
// The local sizes every lowering pass works with, computed from the plan once. After this only shapes travel.

#include <cstdint>

#include "models/op.hpp"
#include "models/plan.hpp"

namespace tandem::lowering {

/// Sizes of one tensor-parallel rank.
struct Shapes {
  std::int64_t tokens;          ///< of a micro-batch
  std::int64_t batch, seq;      ///< tokens = batch * seq
  std::int64_t hidden;
  std::int64_t heads, kv_heads, head_dim; ///< local heads
  std::int64_t attention;       ///< heads * head_dim: columns of the context
  std::int64_t ffn;             ///< local
  std::int64_t fc1;             ///< local columns of the first matrix: ffn, twice that when gated
  std::int64_t vocab_rows;      ///< local, padded
  std::int64_t vocab_size;      ///< whole, unpadded
  std::int64_t max_positions;
  std::int64_t global_tokens;   ///< of the global batch
  std::int64_t tensor;          ///< tensor-parallel degree
  PointwiseKind activation;     ///< unless gated
  GateKind gate;                ///< if gated
  bool gated, rms, rotary, linear_bias, qkv_bias;
  double rope_theta;
  bool alibi, learned_positions, embedding_norm, tied;
  bool tensor_overlap;          ///< weight gradients run beside the all-reduce of the input gradient
  double norm_epsilon, hidden_dropout, attention_dropout;
  DTypes dtypes;

  AttentionDims attention_dims() const { return {batch, heads, seq, head_dim, kv_heads == heads ? 0 : kv_heads}; }
  std::int64_t qkv() const { return attention_dims().qkv_width(); }
  VocabDims vocab_dims() const { return {tokens, vocab_rows, vocab_size}; }
};

Shapes make_shapes(const Plan& plan);

}  // namespace tandem::lowering
