// A recurrence in place of attention: from the layer's input to what the product behind it reads.

#include "models/lowering/templates/block_activations.hpp"

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
  return {d.rows(), parts, d.values() / parts, delta, s_.norm_epsilon};
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

}  // namespace tandem::lowering
