#include "models/lowering/templates/block_adapters.hpp"

#include <array>

namespace tandem::lowering {
namespace {

/// Appends v *= factor. Frameworks multiply by 1, too.
void scale(TemplateBuilder& b, const AdapterAt& at, const std::string& task, const Value& from, const Value& to,
           std::int64_t cols) {
  if (at.s.adapters.scale == 1 && !at.s.adapters.scales_output) return;
  const Elementwise op{from.elements / cols, cols, ElementwiseKind::multiply, Spread::none, at.s.adapters.scale};
  b.add(at.name + task, op, {from}, {to});
}

/// Sizes of a product: n columns from k, with a matrix [n, k] if `trans_b`, else [k, n].
struct Sizes {
  std::int64_t n, k;
  bool trans_b = false;
  bool of_output = false;  ///< one side is the layer's output or its gradient
};

std::vector<Value> with_counts(const AdapterAt& at, std::vector<Value> operands) {
  if (at.experts.ragged) operands.push_back(at.experts.counts);
  return operands;
}

/// The layer's output and its gradient may lie in blocks of columns.
void multiply(TemplateBuilder& b, const AdapterAt& at, const std::string& task, const Sizes& z, const std::array<Value, 3>& v) {
  const auto& [x, w, y] = v;
  if (const ExpertRows& e = at.experts; e.here()) {
    b.add(at.name + task, GroupedMatMul{e.groups, e.experts, e.rows, z.n, z.k, z.trans_b, e.ragged}, with_counts(at, {x, w}), {y});
    return;
  }
  MatMul product{y.elements / z.n, z.n, z.k, false, z.trans_b};
  if (z.of_output) product.blocks = at.s.blocks_of(at.name);
  b.add(at.name + task, product, {x, w}, {y});
}

std::uint16_t expert_gradient(TemplateBuilder& b, const AdapterAt& at, const std::string& task, const Sizes& z,
                              const std::array<Value, 3>& v) {
  const ExpertRows& e = at.experts;
  const GroupedWeightGrad op{e.groups, e.experts, e.rows, z.n, z.k, e.ragged};
  return b.add(at.name + task, op, with_counts(at, {v[0], v[1]}), {v[2]});
}

DropoutSite site_of(const AdapterAt& at) {
  if (at.experts.here()) return at.name == "experts.fc2" ? DropoutSite::lora_experts_fc2 : DropoutSite::lora_experts_fc1;
  if (at.name == "qkv.q") return DropoutSite::lora_q;
  if (at.name == "qkv.k") return DropoutSite::lora_k;
  if (at.name == "qkv.v") return DropoutSite::lora_v;
  if (at.name.ends_with("fc1.gate")) return DropoutSite::lora_gate;
  if (at.name.ends_with("fc1.up")) return DropoutSite::lora_up;
  if (at.name == "qkv") return DropoutSite::lora_qkv;
  if (at.name == "proj") return DropoutSite::lora_proj;
  return at.name.ends_with("fc1") ? DropoutSite::lora_fc1 : DropoutSite::lora_fc2;
}

/// Appends to += from.
void add_to(TemplateBuilder& b, const std::string& task, const Value& from, const Value& to) {
  b.add(task, Accumulate{to.elements, from.dtype, to.dtype}, {from, to}, {to});
}

/// The adapter's columns of dy.
Value taken(TemplateBuilder& b, const AdapterAt& at, const Value& dy) {
  const ColumnSlice columns = at.columns(dy);
  const Value dz = b.scratch(dy.dtype, columns.elements());
  b.add(at.name + "_lora_take", TakeColumns{columns}, {dy}, {dz});
  return dz;
}

}  // namespace

void adapter_dropout(TemplateBuilder& b, const AdapterAt& at, const Value& x, const Value& y) {
  const BiasDropoutAdd op{x.elements / at.in, at.in, at.s.adapters.dropout, false, site_of(at), false, false};
  b.add(at.name + "_lora_dropout", op, {x}, {y});
}

void adapter_inner(TemplateBuilder& b, const AdapterAt& at, const Value& x, const Value& u) {
  multiply(b, at, "_lora_a", {at.rank(), at.in, true}, {x, at.a, u});
  if (!at.s.adapters.scales_output) scale(b, at, "_lora_scale", u, u, at.rank());
}

void adapter_output(TemplateBuilder& b, const AdapterAt& at, const Value& u, const Value& y) {
  const Value z = b.scratch(y.dtype, u.elements / at.rank() * at.out);
  multiply(b, at, "_lora_b", {at.out, at.rank(), true, true}, {u, at.b, z});
  if (at.s.adapters.scales_output) scale(b, at, "_lora_scale", z, z, at.out);
  if (at.of_part()) b.add(at.name + "_lora_add", AddColumns{at.columns(y)}, {z, y}, {y});
  else add_to(b, at.name + "_lora_add", z, y);
}

AdapterGradients adapter_backward(TemplateBuilder& b, const AdapterAt& at, const Value& dy) {
  const Value of_output = at.of_part() ? taken(b, at, dy) : dy;
  const bool scales_output = at.s.adapters.scales_output;
  AdapterGradients g{of_output, b.scratch(dy.dtype, of_output.elements / at.out * at.rank())};
  if (scales_output && !at.of_part()) g.dz = b.scratch(dy.dtype, dy.elements);
  if (scales_output) scale(b, at, "_lora_scale_backward", of_output, g.dz, at.out);
  multiply(b, at, "_lora_b_dgrad", {at.rank(), at.out, false, true}, {g.dz, at.b, g.du});
  if (!scales_output) scale(b, at, "_lora_scale_backward", g.du, g.du, at.rank());
  return g;
}

void adapter_input(TemplateBuilder& b, const AdapterAt& at, const Value& du, const Value& dx) {
  const Value z = b.scratch(dx.dtype, dx.elements);
  multiply(b, at, "_lora_a_dgrad", {at.in, at.rank()}, {du, at.a, z});
  if (at.drops())
    b.add(at.name + "_lora_dropout_backward",
          BiasDropoutAddBackward{dx.elements / at.in, at.in, at.s.adapters.dropout, false, site_of(at)}, {z}, {z});
  add_to(b, at.name + "_lora_dgrad_add", z, dx);
}

std::uint16_t gradient_of_b(TemplateBuilder& b, const AdapterAt& at, const Value& dz, const Value& u, const Value& db) {
  if (at.experts.here()) return expert_gradient(b, at, "_lora_b_wgrad", {at.out, at.rank()}, {dz, u, db});
  MatMul product{at.out, at.rank(), dz.elements / at.out, true};
  product.blocks = at.s.blocks_of(at.name);
  return b.add(at.name + "_lora_b_wgrad", product, {dz, u}, {db});
}

std::uint16_t gradient_of_a(TemplateBuilder& b, const AdapterAt& at, const Value& du, const Value& x, const Value& da) {
  if (at.experts.here()) return expert_gradient(b, at, "_lora_a_wgrad", {at.rank(), at.in}, {du, x, da});
  return b.add(at.name + "_lora_a_wgrad", MatMul{at.rank(), at.in, x.elements / at.in, true}, {du, x}, {da});
}

}  // namespace tandem::lowering
