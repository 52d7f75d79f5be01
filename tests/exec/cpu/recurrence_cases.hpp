#pragma once
// Calls of operations that are run without knowing what they do.

#include <vector>

#include "models/ops/op.hpp"
#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {

/// An operation with the sizes of its operands, to run without knowing what it does.
struct Call {
  Op op;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  double in_floats = 2e-6;  ///< a few dozen roundings of 6e-8 each, relative to the largest element
};

inline Operand random(std::int64_t n, unsigned seed) { return real(random_values(n, seed)); }
inline Operand positive(std::int64_t n, unsigned seed) {
  Values v = random_values(n, seed);
  for (double& x : v) x = 1 + 0.5 * x;
  return real(v);
}
/// Operations of a recurrence, of gates, and products in blocks of columns.
inline std::vector<Call> recurrence_calls(RecurrenceRule rule, std::int64_t seq) {
  const RecurrenceDims d{rule, 3, 4, seq, 2, 6, 5};
  const std::int64_t elements = 300;
  const bool skip = rule == RecurrenceRule::mamba2;
  const std::int64_t mixed = d.rows() * d.mixed(), values = d.rows() * d.values(), weights = d.mixed() * 3;
  const GatedNorm norm{d.rows(), 2, 10, !skip, 1e-5, skip};
  std::vector<Operand> in{random(mixed, 1), random(d.rows() * d.scalars(), 2), random(4, 3), random(4, 4)},
      out{result(mixed), result(d.rows() * d.scalars()), result(4), result(4)};
  if (skip) in.push_back(random(4, 5)), out.push_back(result(4));
  std::vector<Operand> back = in;
  back.insert(back.begin(), random(values, 6));
  return {{Recurrence{d}, in, {result(values)}},
          // A log-decay's gradient sums differences over its chunk that nearly cancel; those of a head's vectors sum these again.
          {RecurrenceBackward{d}, back, out, 4e-5},
          {ShortConv{d, 3, true}, {random(mixed, 1), random(weights, 2), random(d.mixed(), 3)}, {result(mixed)}},
          {ShortConvBackward{d, 3, true},
           {random(mixed, 1), random(mixed, 2), random(weights, 3), random(d.mixed(), 4)},
           {result(mixed), result(weights), result(d.mixed())}},
          {norm, {random(values, 1), random(values, 2), random(norm.weights(), 3)}, {result(values), result(2 * d.rows())}},
          {GatedNormBackward{d.rows(), 2, 10, !skip, skip},
           {random(values, 1), random(values, 2), random(values, 3), random(norm.weights(), 4), positive(2 * d.rows(), 5)},
           {result(values), result(values), result(norm.weights())}},
          {SigmoidGate{elements}, {random(elements, 1), random(elements, 2)}, {result(elements)}},
          {SigmoidGateBackward{elements},
           {random(elements, 1), random(elements, 2), random(elements, 3)},
           {result(elements), result(elements)}},
          {MatMul{7, 9, 3, false, true, true, false, DType::fp32, false, ProductActivation::none, {4, 2}},
           {random(21, 1), random(27, 2), random(9, 3)},
           {result(63)}},
          {MatMul{9, 3, 7, true, false, false, false, DType::fp32, true, ProductActivation::none, {4, 2}},
           {random(63, 1), random(21, 2)},
           {result(27), result(9)}}};
}

}  // namespace tandem::exec::test
