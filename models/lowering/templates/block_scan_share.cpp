// Context ranks of a recurrence: whole sequences, and a share of the heads (NVIDIA/Megatron-LM:
// megatron/core/ssm/mamba_context_parallel.py). An all-to-all brings every position's queries, keys, values and scalars of a rank's
// own heads; another takes outputs back. The gate and the norm with it need no other positions, so they stay.

#include "models/lowering/templates/block_backward.hpp"

namespace tandem::lowering {
namespace {

OrderRows order_of(const Shapes& s, const ColumnParts& parts, bool inverse) {
  return {s.batch, s.seq * s.context, parts.part_cols(), s.context, inverse};
}

}  // namespace

void BlockActivations::to_sequences(const Value& v, const ColumnParts& parts, const std::string& name, const Value& to) {
  b_.add(name + "_order", order_of(s_, parts, false), {by_heads(v, parts, name)}, {to});
}

void BlockActivations::from_sequences(const Value& v, const ColumnParts& parts, const std::string& name, const Value& to) {
  const Value by_rank = b_.scratch(v.dtype, v.elements);
  b_.add(name + "_order", order_of(s_, parts, true), {v}, {by_rank});
  by_positions(by_rank, parts, name, to);
}

void BlockActivations::exchange_scan_input() {
  const RecurrenceDims d = s_.recurrence_dims();
  const ScanInput places(s_);
  const Value &in = t_.recurrence.in, scalars = in.part(places.scalars, d.rows() * d.scalars());
  to_sequences(in.part(places.made, d.rows() * d.mixed()), parts_of_mixed(s_, d.rows()), "recurrence_mixed", in.part(0, places.mixed));
  to_sequences(scalars, parts_of_heads(s_, d.rows(), d.scalars()), "recurrence_scalars", scalars);
}

Value BlockActivations::own_heads(const std::string& name, const Value& all, const ColumnParts& parts) {
  if (s_.context == 1) return all;
  const Value own = b_.scratch(all.dtype, parts.rows * parts.part_cols());
  b_.add(name + "_take", TakePart{parts}, {all}, {own});
  return own;
}

std::vector<Value> BlockActivations::convolution_weights() {
  const std::int64_t taps = s_.recurrence.taps;
  const bool bias = s_.recurrence.conv_bias;
  if (convolution_weight_.elements == 0) {
    convolution_weight_ = own_heads("recurrence_conv", w_.block("recurrence_conv.weight"), parts_of_mixed(s_, 1, taps));
    if (bias) convolution_bias_ = own_heads("recurrence_conv_bias", w_.block("recurrence_conv.bias"), parts_of_mixed(s_, 1));
  }
  return bias ? std::vector{convolution_weight_, convolution_bias_} : std::vector{convolution_weight_};
}

/// They are neighbours in the block's region.
const Value& BlockActivations::head_vectors() {
  if (head_vectors_.elements > 0) return head_vectors_;
  const RecurrenceDims d = s_.recurrence_dims();
  const ColumnParts parts = parts_of_heads(s_, head_vector_count(d), d.heads);
  Value all = w_.block("recurrence_decay");
  all.elements = parts.whole();
  return head_vectors_ = own_heads("recurrence_heads", all, parts);
}

void BlockBackward::shared_scan(const Value& dy, const Value& dmixed, const Value& dscalars) {
  const RecurrenceDims d = s_.recurrence_dims();
  const std::int64_t mixed = ScanInput(s_).mixed;
  const Value own_dy = scratch(dy.elements), dconvolved = scratch(mixed), din = scratch(mixed);
  const Value own_dscalars = scratch(dscalars.elements);
  a_.to_sequences(dy, parts_of_heads(s_, d.rows(), d.values()), "drecurrence_out", own_dy);
  states(own_dy, dconvolved, own_dscalars);
  a_.from_sequences(own_dscalars, parts_of_heads(s_, d.rows(), d.scalars()), "drecurrence_scalars", dscalars);
  convolution(dconvolved, din);
  a_.from_sequences(din, parts_of_mixed(s_, d.rows()), "drecurrence_mixed", dmixed);
}

Value BlockBackward::own_gradient(const Value& all, const ColumnParts& parts) {
  return s_.context == 1 ? all : b_.scratch(all.dtype, parts.rows * parts.part_cols());
}

void BlockBackward::place_gradient(const std::string& name, const Value& own, const Value& all, const ColumnParts& parts) {
  if (s_.context > 1) b_.add(name + "_place", PlacePart{parts}, {own}, {all});
}

}  // namespace tandem::lowering
