// A recurrence in place of attention: from the layer's input to the output projection's input, and back to the output gradient of
// its first product. Context ranks scan whole sequences for a share of the heads (block_scan_share.cpp).

#include "models/lowering/templates/block_backward.hpp"

namespace tandem::lowering {

Value BlockActivations::convolved() {
  if (t_.recurrence.mixed.ready) return t_.recurrence.mixed;
  const std::int64_t n = ScanInput(s_).mixed;
  const Value y = start(t_.recurrence.mixed, n);
  std::vector<Value> in{t_.recurrence.in.part(0, n)};
  for (const Value& v : convolution_weights()) in.push_back(v);
  b_.add("recurrence_conv", ShortConv{scan_dims(s_), s_.recurrence.taps, s_.recurrence.conv_bias}, std::move(in), {y});
  return y;
}

std::vector<Value> BlockActivations::recurrence_operands() {
  const RecurrenceDims d = scan_dims(s_);
  const std::int64_t vectors = head_vector_count(d);
  std::vector<Value> in{convolved(), t_.recurrence.in.part(ScanInput(s_).scalars, d.rows() * d.scalars())};
  for (std::int64_t i = 0; i < vectors; ++i) in.push_back(head_vectors().part(i * d.heads, d.heads));
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
  const ScanInput places(s_);
  const std::int64_t n = d.rows() * d.values();
  const bool shares = s_.context > 1;
  const Value x = input(1, state_), in = start(t_.recurrence.in, places.end);
  column("recurrence_in", x, d.width(), in.part(places.made, d.rows() * d.width()));
  if (shares) exchange_scan_input();
  std::vector<Value> operands = recurrence_operands();
  const Value y = start(t_.recurrence.out, n), scanned = shares ? b_.scratch(y.dtype, n) : y;
  b_.add("recurrence", Recurrence{scan_dims(s_)}, std::move(operands), {scanned});
  if (shares) from_sequences(scanned, parts_of_heads(s_, d.rows(), d.values()), "recurrence_out", y);
  const GatedNorm norm = recurrence_norm();
  const Value out = start(t_.context, n), stats = start(t_.recurrence.stats, norm.rows * norm.parts, s_.numerics.statistics);
  b_.add("recurrence_norm", norm, {y, in.part(places.gate, n), w_.block("recurrence_norm.weight")}, {out, stats});
}

Value BlockBackward::recurrence(const Value& dcontext) {
  const RecurrenceDims d = s_.recurrence_dims();
  const RecurrenceSaved& t = a_.at().recurrence;
  const std::int64_t rows = d.rows(), mixed = rows * d.mixed(), values = rows * d.values();
  const Value din = input_gradient(), dgate = din.part(mixed, values), dscalars = din.part(mixed + values, rows * d.scalars());
  const Value dy = scratch(values);
  GradientSink& early = early_sink();
  const GatedNorm norm = a_.recurrence_norm();
  early.open("recurrence_norm.weight", "recurrence_norm.weight", gradient_type());
  b_.add("recurrence_norm_backward", GatedNormBackward{norm.rows, norm.parts, norm.cols, norm.same_weights, norm.gate_first},
         {dcontext, t.out, t.in.part(ScanInput(s_).gate, values), weights_.block("recurrence_norm.weight"), t.stats},
         {dy, dgate, early.part("recurrence_norm.weight")});
  early.close("recurrence_norm");
  if (s_.context > 1) {
    shared_scan(dy, din.part(0, mixed), dscalars);
    return din;
  }
  const Value dx = scratch(mixed);
  states(dy, dx, dscalars);
  convolution(dx, din.part(0, mixed));
  return din;
}

void BlockBackward::states(const Value& dy, const Value& dx, const Value& dscalars) {
  const RecurrenceDims d = scan_dims(s_);
  const bool skip = d.rule == RecurrenceRule::mamba2;
  GradientSink& early = early_sink();
  early.open("recurrence_decay", skip ? "recurrence_skip" : "recurrence_step", gradient_type());
  const ColumnParts parts = parts_of_heads(s_, head_vector_count(d), s_.recurrence.heads);
  const Value vectors = own_gradient(early.whole(), parts);
  std::vector<Value> in{dy}, out{dx, dscalars};
  for (const Value& v : a_.recurrence_operands()) in.push_back(v);
  for (std::int64_t i = 0; i < parts.rows; ++i) out.push_back(vectors.part(i * d.heads, d.heads));
  b_.add("recurrence_backward", RecurrenceBackward{d}, std::move(in), std::move(out));
  place_gradient("recurrence_heads", vectors, early.whole(), parts);
  early.close("recurrence");
}

void BlockBackward::convolution(const Value& dy, const Value& dx) {
  const bool bias = s_.recurrence.conv_bias;
  GradientSink& early = early_sink();
  early.open("recurrence_conv.weight", bias ? "recurrence_conv.bias" : "recurrence_conv.weight", gradient_type());
  const Value weight = early.part("recurrence_conv.weight"), shift = bias ? early.part("recurrence_conv.bias") : Value{};
  const ColumnParts of_weight = parts_of_mixed(s_, 1, s_.recurrence.taps), of_shift = parts_of_mixed(s_, 1);
  const Value dweight = own_gradient(weight, of_weight), dshift = bias ? own_gradient(shift, of_shift) : Value{};
  std::vector<Value> in{dy, a_.at().recurrence.in.part(0, dy.elements)}, out{dx, dweight};
  for (const Value& v : a_.convolution_weights()) in.push_back(v);
  if (bias) out.push_back(dshift);
  b_.add("recurrence_conv_backward", ShortConvBackward{scan_dims(s_), s_.recurrence.taps, bias}, std::move(in), std::move(out));
  place_gradient("recurrence_conv", dweight, weight, of_weight);
  if (bias) place_gradient("recurrence_conv_bias", dshift, shift, of_shift);
  early.close("recurrence_conv");
}

}  // namespace tandem::lowering
