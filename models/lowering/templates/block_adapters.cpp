#include "models/lowering/templates/block_adapters.hpp"

namespace tandem::lowering {
namespace {

/// Appends v *= factor. Frameworks multiply by 1, too.
void scale(TemplateBuilder& b, const AdapterAt& at, const std::string& task, const Value& from, const Value& to,
           std::int64_t cols) {
  if (at.s.adapters.scale == 1 && !at.s.adapters.scales_output) return;
  const Elementwise op{from.elements / cols, cols, ElementwiseKind::multiply, Spread::none, at.s.adapters.scale};
  b.add(at.name + task, op, {from}, {to});
}

/// A product with the layer's output or its gradient, which the matrix may give in blocks of columns.
MatMul of_output(const AdapterAt& at, MatMul product) {
  product.blocks = at.s.blocks_of(at.name);
  return product;
}

/// Appends to += from.
void add_to(TemplateBuilder& b, const std::string& task, const Value& from, const Value& to) {
  b.add(task, Accumulate{to.elements, from.dtype, to.dtype}, {from, to}, {to});
}

}  // namespace

void adapter_inner(TemplateBuilder& b, const AdapterAt& at, const Value& x, const Value& u) {
  const std::int64_t rows = x.elements / at.in;
  b.add(at.name + "_lora_a", MatMul{rows, at.rank(), at.in, false, true}, {x, at.a}, {u});
  if (!at.s.adapters.scales_output) scale(b, at, "_lora_scale", u, u, at.rank());
}

void adapter_output(TemplateBuilder& b, const AdapterAt& at, const Value& u, const Value& y) {
  const Value z = b.scratch(y.dtype, y.elements);
  b.add(at.name + "_lora_b", of_output(at, {y.elements / at.out, at.out, at.rank(), false, true}), {u, at.b}, {z});
  if (at.s.adapters.scales_output) scale(b, at, "_lora_scale", z, z, at.out);
  add_to(b, at.name + "_lora_add", z, y);
}

AdapterGradients adapter_backward(TemplateBuilder& b, const AdapterAt& at, const Value& dy) {
  const std::int64_t rows = dy.elements / at.out;
  const bool scales_output = at.s.adapters.scales_output;
  AdapterGradients g{dy, b.scratch(dy.dtype, rows * at.rank())};
  if (scales_output) scale(b, at, "_lora_scale_backward", dy, g.dz = b.scratch(dy.dtype, dy.elements), at.out);
  b.add(at.name + "_lora_b_dgrad", of_output(at, {rows, at.rank(), at.out}), {g.dz, at.b}, {g.du});
  if (!scales_output) scale(b, at, "_lora_scale_backward", g.du, g.du, at.rank());
  return g;
}

void adapter_input(TemplateBuilder& b, const AdapterAt& at, const Value& du, const Value& dx) {
  const Value z = b.scratch(dx.dtype, dx.elements);
  b.add(at.name + "_lora_a_dgrad", MatMul{dx.elements / at.in, at.in, at.rank()}, {du, at.a}, {z});
  add_to(b, at.name + "_lora_dgrad_add", z, dx);
}

}  // namespace tandem::lowering
