// From the gradient of what the product behind a recurrence read to that of what the product before it gave.

#include "models/lowering/templates/block_backward.hpp"

namespace tandem::lowering {

Value BlockBackward::recurrence(const Value& dcontext) {
  const RecurrenceDims d = s_.recurrence_dims();
  const RecurrenceSaved& t = a_.at().recurrence;
  const std::int64_t rows = d.rows(), mixed = rows * d.mixed(), values = rows * d.values();
  const Value din = input_gradient(), dgate = din.part(mixed, values), dscalars = din.part(mixed + values, rows * d.scalars());
  const Value dy = scratch(values), dx = scratch(mixed);
  GradientSink& early = early_sink();
  const GatedNorm norm = a_.recurrence_norm();
  early.open("recurrence_norm.weight", "recurrence_norm.weight", gradient_type());
  b_.add("recurrence_norm_backward", GatedNormBackward{norm.rows, norm.parts, norm.cols, norm.same_weights},
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
