#pragma once
// Layer norm and RMSNorm: the same operation with and without a shift.

#include "models/lowering/shapes/shapes.hpp"
#include "models/lowering/templates/template_builder.hpp"

namespace tandem::lowering {

/// Weight and, for a layer norm, shift.
struct NormParams {
  Value weight, bias;
};

/// The parameters of the norm `name` in a region as `at` finds them.
template <class At>
NormParams norm_params(const Shapes& s, const std::string& name, At&& at) {
  return {at(name + ".weight"), s.norm_bias ? at(name + ".bias") : Value{}};
}

/// Appends y, stats = norm(x) over the rank's rows.
inline void norm(TemplateBuilder& b, const Shapes& s, const std::string& name, const Value& x, const NormParams& p,
                 std::vector<Value> out) {
  std::vector<Value> in{x, p.weight};
  if (s.norm_bias) in.push_back(p.bias);
  b.add(name, LayerNorm{s.rows, s.hidden, s.norm_epsilon, s.rms, !s.rms && !s.norm_bias}, std::move(in), std::move(out));
}

/// Inputs of a norm's backward pass; `residual` if one is added.
struct NormGradient {
  Value dy, x, stats, gamma;
  const Value* residual = nullptr;
};

/// Appends dx = norm'(dy) (+ residual), for a norm with frozen parameters.
inline void norm_backward(TemplateBuilder& b, const Shapes& s, const std::string& name, const NormGradient& n, const Value& dx) {
  std::vector<Value> in{n.dy, n.x, n.stats, n.gamma};
  if (n.residual) in.push_back(*n.residual);
  LayerNormBackward op{s.rows, s.hidden, n.residual != nullptr, s.rms, NormPart::input};
  op.plain = !s.rms && !s.norm_bias;
  b.add(name + "_backward", op, std::move(in), {dx});
}

/// Appends dx = norm'(dy) (+ residual) and the gradients of the norm's parameters.
inline void norm_backward(TemplateBuilder& b, const Shapes& s, const std::string& name, const NormGradient& n,
                          const Value& dx, const NormParams& gradients) {
  std::vector<Value> in{n.dy, n.x, n.stats, n.gamma}, out{dx, gradients.weight};
  if (n.residual) in.push_back(*n.residual);
  if (s.norm_bias) out.push_back(gradients.bias);
  LayerNormBackward op{s.rows, s.hidden, n.residual != nullptr, s.rms};
  op.plain = !s.rms && !s.norm_bias;
  b.add(name + "_backward", op, std::move(in), std::move(out));
}

}  // namespace tandem::lowering
