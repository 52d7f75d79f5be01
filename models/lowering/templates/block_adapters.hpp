#pragma once
// Low-rank adapters beside frozen matrices (LoRA, arXiv 2106.09685 section 4.1): y = W x + scale * B (A dropout(x)), as PEFT computes
// (huggingface/peft: src/peft/tuners/lora/layer.py, Linear.forward). Each routed expert has an A and a B. Queries, keys, values, gate and
// up may have an adapter each, which adds to its columns of the matrix' output (NVIDIA-NeMo/Megatron-Bridge:
// src/megatron/bridge/peft/canonical_lora.py).
//
// With a matrix whose rows are cut over tensor ranks, every rank has A whole and its own rows of B. With one whose columns are cut,
// every rank has its own columns of A and B whole. A x is then a partial sum. B (A x) joins the product's own partial sum ahead of
// the sum over ranks, so no pass has another collective.

#include <string>

#include "models/lowering/shapes/adapter_places.hpp"
#include "models/lowering/templates/template_builder.hpp"

namespace tandem::lowering {

/// The rows of routed experts, as in GroupedMatMul.
struct ExpertRows {
  std::int64_t groups = 0, experts = 0, rows = 0;  ///< no groups: the matrix is not one of experts
  bool ragged = false;
  Value counts{};                 ///< only if ragged
  bool here() const { return groups > 0; }
};

/// One adapter and its sizes on this rank.
struct AdapterAt : AdapterPlace {
  const Shapes& s;
  std::int64_t in;                ///< columns of the matrix
  Value a, b;                     ///< A [rank, in], B [out, rank]
  ExpertRows experts{};

  std::int64_t rank() const { return s.adapters.rank; }
  bool drops() const { return s.adapters.dropout > 0; }
  bool of_part() const { return part.width > 0; }
  /// Its columns of y, the matrix' output.
  ColumnSlice columns(const Value& y) const { return {y.elements / part.group, part.group, part.first, part.width}; }
};

/// y = dropout(x).
void adapter_dropout(TemplateBuilder& b, const AdapterAt& at, const Value& x, const Value& y);

/// u = A x for all rows of x, which went through dropout, in place `u`. It includes the factor unless that multiplies what B gives.
void adapter_inner(TemplateBuilder& b, const AdapterAt& at, const Value& x, const Value& u);
/// y += B u, with the factor.
void adapter_output(TemplateBuilder& b, const AdapterAt& at, const Value& u, const Value& y);

/// Gradients on the way back, from that of the layer's output.
struct AdapterGradients {
  Value dz;  ///< gradient of what B gives
  Value du;  ///< gradient of A x
};
AdapterGradients adapter_backward(TemplateBuilder& b, const AdapterAt& at, const Value& dy);
/// dx += A^T du, through the dropout.
void adapter_input(TemplateBuilder& b, const AdapterAt& at, const Value& du, const Value& dx);
/// Gradients of B from u, and of A from its input x. Each returns its task.
std::uint16_t gradient_of_b(TemplateBuilder& b, const AdapterAt& at, const Value& dz, const Value& u, const Value& db);
std::uint16_t gradient_of_a(TemplateBuilder& b, const AdapterAt& at, const Value& du, const Value& x, const Value& da);

}  // namespace tandem::lowering
