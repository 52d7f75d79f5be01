#include "models/lowering/shapes.hpp"

namespace tandem::lowering {
namespace {

PointwiseKind pointwise_of(Activation a) {
  switch (a) {
    case Activation::gelu: return PointwiseKind::gelu_tanh;
    case Activation::relu: return PointwiseKind::relu;
    case Activation::squared_relu: return PointwiseKind::squared_relu;
    case Activation::swiglu: case Activation::geglu: break;
  }
  return PointwiseKind::gelu_tanh;  // not read: the gate is
}

}  // namespace

Shapes make_shapes(const Plan& plan) {
  const ModelSpec& m = plan.model;
  const std::int64_t t = plan.parallel.tensor;
  Shapes s{};
  s.batch = plan.training.micro_batch_size;
  s.seq = plan.training.seq_length;
  s.tokens = plan.micro_batch_tokens();
  s.hidden = m.hidden_size;
  s.heads = m.num_attention_heads / t;
  s.kv_heads = m.num_kv_heads / t;
  s.head_dim = m.head_dim;
  s.attention = s.heads * s.head_dim;
  s.ffn = m.ffn_hidden_size / t;
  s.gated = m.gated();
  s.gate = m.activation == Activation::geglu ? GateKind::gelu_tanh : GateKind::silu;
  s.fc1 = s.gated ? 2 * s.ffn : s.ffn;
  s.rms = m.normalization == Normalization::rmsnorm;
  s.rotary = m.position_embedding == PositionEmbedding::rope;
  s.rope_theta = m.rope_theta;
  s.linear_bias = m.linear_bias;
  s.qkv_bias = m.qkv_bias;
  s.vocab_rows = plan.padded_vocab_size() / t;
  s.vocab_size = m.vocab_size;
  s.max_positions = m.max_position_embeddings;
  s.global_tokens = plan.global_batch_tokens();
  s.tensor = t;
  s.activation = pointwise_of(m.activation);
  s.alibi = m.position_embedding == PositionEmbedding::alibi;
  s.learned_positions = m.position_embedding == PositionEmbedding::learned;
  s.embedding_norm = m.embedding_norm;
  s.tied = m.tie_embeddings;
  s.tensor_overlap = plan.parallel.tensor_overlap;
  s.norm_epsilon = m.norm_epsilon;
  s.hidden_dropout = plan.training.dropout.hidden;
  s.attention_dropout = plan.training.dropout.attention;
  s.dtypes = plan.training.dtypes;
  return s;
}

}  // namespace tandem::lowering
