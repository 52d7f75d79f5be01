// A recurrence in place of attention: from the layer's input to the output
// projection's input, and back to the output gradient of its first product.

#include "models/lowering/templates/block_backward.hpp"

namespace tandem::lowering {

Value BlockActivations::convolved() {
  if (t_.recurrence.mixed.ready) return t_.recurrence.mixed;
  const RecurrenceDims d = s_.recurrence_dims();
  const std::int64_t n = d.rows() * d.mixed();
  const Value y = start(t_.recurrence.mixed, n);
  std::vector<Value> in{t_.recurrence.in.part(0, n), w_.block("recurrence_conv.weight")};
  if (s_.recurrence.conv_bias) in.push_back(w_.block("recurrence_conv.bias"));
  b_.add("recurrence_conv", ShortConv{d, s_.recurrence.taps, s_.recurrence.conv_bias}, std::move(in), {y});
  return y;
}

std::vector<Value> BlockActivations::recurrence_operands() {
  const RecurrenceDims d = s_.recurrence_dims();
  const std::int64_t before = d.rows() * (d.mixed() + d.values());
  std::vector<Value> in{convolved(), t_.recurrence.in.part(before, d.rows() * d.scalars()), w_.block("recurrence_decay"),
                        w_.block("recurrence_step")};
  if (d.rule == RecurrenceRule::mamba2) in.push_back(w_.block("recurrence_skip"));
  return in;
}

GatedNorm BlockActivations::recurrence_norm() const {
  const RecurrenceDims d = s_.recurrence_dims();
  const bool delta = d.rule == RecurrenceRule::gated_delta;
  const std::int64_t parts = delta ? d.heads : d.key_heads;
  return {d.rows(), parts, d.values() / parts, delta, s_.norm_epsilon, !delta};
}

void BlockActivations::recurrence() {
  const RecurrenceDims d = s_.recurrence_dims();
  const std::int64_t n = d.rows() * d.values();
  const Value x = input(1, state_), in = start(t_.recurrence.in, d.rows() * d.width());
  column("recurrence_in", x, d.width(), in);
  std::vector<Value> operands = recurrence_operands();
  const Value y = start(t_.recurrence.out, n);
  b_.add("recurrence", Recurrence{d}, std::move(operands), {y});
  const GatedNorm norm = recurrence_norm();
  const Value out = start(t_.context, n), stats = start(t_.recurrence.stats, norm.rows * norm.parts, s_.numerics.statistics);
  b_.add("recurrence_norm", norm, {y, in.part(d.rows() * d.mixed(), n), w_.block("recurrence_norm.weight")}, {out, stats});
}

Value BlockBackward::recurrence(const Value& dcontext) {
  const RecurrenceDims d = s_.recurrence_dims();
  const RecurrenceSaved& t = a_.at().recurrence;
  const std::int64_t rows = d.rows(), mixed = rows * d.mixed(), values = rows * d.values();
  const Value din = input_gradient(), dgate = din.part(mixed, values), dscalars = din.part(mixed + values, rows * d.scalars());
  const Value dy = scratch(values), dx = scratch(mixed);
  GradientSink& early = early_sink();
  const GatedNorm norm = a_.recurrence_norm();
  early.open("recurrence_norm.weight", "recurrence_norm.weight", gradient_type());
  b_.add("recurrence_norm_backward", GatedNormBackward{norm.rows, norm.parts, norm.cols, norm.same_weights, norm.gate_first},
         {dcontext, t.out, t.in.part(mixed, values), weights_.block("recurrence_norm.weight"), t.stats},
         {dy, dgate, early.part("recurrence_norm.weight")});
  early.close("recurrence_norm");
  states(d, dy, dx, dscalars);
  convolution(d, dx, din.part(0, mixed));
  return din;
}

void BlockBackward::states(const RecurrenceDims& d, const Value& dy, const Value& dx, const Value& dscalars) {
  const bool skip = d.rule == RecurrenceRule::mamba2;
  GradientSink& early = early_sink();
  early.open("recurrence_decay", skip ? "recurrence_skip" : "recurrence_step", gradient_type());
  std::vector<Value> in{dy}, out{dx, dscalars, early.part("recurrence_decay"), early.part("recurrence_step")};
  for (const Value& v : a_.recurrence_operands()) in.push_back(v);
  if (skip) out.push_back(early.part("recurrence_skip"));
  b_.add("recurrence_backward", RecurrenceBackward{d}, std::move(in), std::move(out));
  early.close("recurrence");
}

void BlockBackward::convolution(const RecurrenceDims& d, const Value& dy, const Value& dx) {
  const bool bias = s_.recurrence.conv_bias;
  GradientSink& early = early_sink();
  early.open("recurrence_conv.weight", bias ? "recurrence_conv.bias" : "recurrence_conv.weight", gradient_type());
  std::vector<Value> in{dy, a_.at().recurrence.in.part(0, dy.elements), weights_.block("recurrence_conv.weight")};
  std::vector<Value> out{dx, early.part("recurrence_conv.weight")};
  if (bias) in.push_back(weights_.block("recurrence_conv.bias")), out.push_back(early.part("recurrence_conv.bias"));
  b_.add("recurrence_conv_backward", ShortConvBackward{d, s_.recurrence.taps, bias}, std::move(in), std::move(out));
  early.close("recurrence_conv");
}

}  // namespace tandem::lowering
