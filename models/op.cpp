#include "models/op.hpp"

namespace tandem {
namespace {

/// FLOPs of one batched product over the full score matrix: 2 seq^2 head_dim for every head of every sequence.
std::int64_t score_product(const AttentionDims& d) { return 2 * d.batch * d.heads * d.seq * d.seq * d.head_dim; }
std::int64_t score_elements(const AttentionDims& d) { return d.batch * d.heads * d.seq * d.seq; }
constexpr std::int64_t none = 0;

constexpr std::string_view kKindNames[kOpKinds] = {
      "matmul", "bias_grad", "layernorm", "layernorm_backward", "pointwise", "pointwise_backward",
      "gated_pointwise", "gated_pointwise_backward", "attention_scores",
      "attention_softmax", "attention_context", "attention_context_backward", "attention_softmax_backward",
      "attention_scores_backward", "rotary", "bias_dropout_add", "bias_dropout_add_backward", "embedding", "embedding_backward",
      "position_dropout", "position_dropout_backward", "vocab_max", "vocab_exp_sum", "cross_entropy", "accumulate",
      "grad_norm", "clip_coefficient", "adamw", "collective", "send", "recv"};
static_assert(!kKindNames[kOpKinds - 1].empty(), "an operation has no name");

}  // namespace

std::string_view kind_name(const Op& op) { return kKindNames[op.index()]; }

Flops matrix_flops(const Op& op) {
  return Flops(std::visit(
      overloaded{[](const MatMul& o) { return 2 * o.m * o.n * o.k; },
                 [](const AttentionScores& o) { return score_product(o.dims); },
                 [](const AttentionContext& o) { return score_product(o.dims); },
                 [](const AttentionContextBackward& o) { return 2 * score_product(o.dims); },
                 [](const AttentionScoresBackward& o) { return 2 * score_product(o.dims); },
                 [](const BiasGrad&) { return none; }, [](const LayerNorm&) { return none; },
                 [](const LayerNormBackward&) { return none; }, [](const Pointwise&) { return none; },
                 [](const PointwiseBackward&) { return none; }, [](const GatedPointwise&) { return none; },
                 [](const GatedPointwiseBackward&) { return none; }, [](const Rotary&) { return none; },
                 [](const AttentionSoftmax&) { return none; },
                 [](const AttentionSoftmaxBackward&) { return none; }, [](const BiasDropoutAdd&) { return none; },
                 [](const BiasDropoutAddBackward&) { return none; }, [](const Embedding&) { return none; },
                 [](const EmbeddingBackward&) { return none; }, [](const PositionDropout&) { return none; },
                 [](const PositionDropoutBackward&) { return none; }, [](const VocabMax&) { return none; },
                 [](const VocabExpSum&) { return none; }, [](const CrossEntropy&) { return none; },
                 [](const Accumulate&) { return none; }, [](const GradNorm&) { return none; },
                 [](const ClipCoefficient&) { return none; }, [](const AdamW&) { return none; },
                 [](const Collective&) { return none; }, [](const Send&) { return none; },
                 [](const Recv&) { return none; }},
      op));
}

Flops vector_flops(const Op& op) {
  return Flops(std::visit(
      overloaded{[](const MatMul& o) { return o.bias ? o.m * o.n : none; },
                 [](const BiasGrad& o) { return o.rows * o.cols; },
                 [](const LayerNorm& o) { return 8 * o.rows * o.cols; },
                 [](const LayerNormBackward& o) { return 14 * o.rows * o.cols; },
                 [](const Pointwise& o) { return (o.kind == PointwiseKind::gelu_tanh ? 12 : 2) * o.elements; },
                 [](const PointwiseBackward& o) { return (o.kind == PointwiseKind::gelu_tanh ? 20 : 3) * o.elements; },
                 [](const GatedPointwise& o) { return 13 * o.rows * o.cols; },
                 [](const GatedPointwiseBackward& o) { return 22 * o.rows * o.cols; },
                 [](const Rotary& o) { return 3 * o.dims.batch * o.dims.seq * (o.dims.heads + o.dims.groups()) * o.dims.head_dim; },
                 [](const AttentionScores&) { return none; },
                 [](const AttentionSoftmax& o) { return (o.dropout > 0 ? 12 : 8) * score_elements(o.dims); },
                 [](const AttentionContext&) { return none; }, [](const AttentionContextBackward&) { return none; },
                 [](const AttentionSoftmaxBackward& o) { return (o.dropout > 0 ? 8 : 5) * score_elements(o.dims); },
                 [](const AttentionScoresBackward&) { return none; },
                 [](const BiasDropoutAdd& o) { return 5 * o.rows * o.cols; },
                 [](const BiasDropoutAddBackward& o) { return 4 * o.rows * o.cols; },
                 [](const Embedding&) { return none; },
                 [](const EmbeddingBackward& o) { return o.tokens * o.hidden; },
                 [](const PositionDropout& o) { return 4 * o.batch * o.seq * o.hidden; },
                 [](const PositionDropoutBackward& o) { return 4 * o.batch * o.seq * o.hidden; },
                 [](const VocabMax& o) { return o.dims.rows * o.dims.cols; },
                 [](const VocabExpSum& o) { return 6 * o.dims.rows * o.dims.cols; },
                 [](const CrossEntropy& o) { return 8 * o.dims.rows * o.dims.cols; },
                 [](const Accumulate& o) { return o.elements; }, [](const GradNorm& o) { return 2 * o.elements; },
                 [](const ClipCoefficient& o) { return o.global_parameters; },
                 [](const AdamW& o) { return 16 * o.elements; }, [](const Collective&) { return none; },
                 [](const Send&) { return none; }, [](const Recv&) { return none; }},
      op));
}

Bytes payload(const Op& op) {
  if (const auto* c = std::get_if<Collective>(&op)) return bytes_of(c->dtype, c->elements);
  if (const auto* s = std::get_if<Send>(&op)) return bytes_of(s->dtype, s->elements);
  if (const auto* r = std::get_if<Recv>(&op)) return bytes_of(r->dtype, r->elements);
  return Bytes(0);
}

bool is_communication(const Op& op) {
  return std::holds_alternative<Collective>(op) || std::holds_alternative<Send>(op) || std::holds_alternative<Recv>(op);
}

}  // namespace tandem
