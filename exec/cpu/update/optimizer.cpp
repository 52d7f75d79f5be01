// Gradient accumulation, the global norm, AdamW and SGD.
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/pieces.hpp"
#include "exec/cpu/split.hpp"
#include "exec/cpu/staged.hpp"
#include "exec/cpu/updated.hpp"
#include "exec/shared/adamw.hpp"
#include "exec/shared/clipping.hpp"

namespace tandem::exec::cpu {
namespace {

template <class Source, class Destination>
void accumulate(const Accumulate& op, Call& call) {
  const Source* source = call.in<Source>(0);
  Destination* sum = call.out<Destination>(0);
  if (op.overwrite) return each(call, op.elements, [=](std::int64_t i) { sum[i] = static_cast<Destination>(source[i]); });
  each(call, op.elements, [=](std::int64_t i) { sum[i] += static_cast<Destination>(source[i]); });
}

template <class T>
struct AdamWState {
  const T* gradient;
  T *weight, *exp_avg, *exp_avg_sq;
};

// A thread's operands while it processes its ranges.
template <class T>
struct AdamWOperands {
  Updated<T> weights;
  Moment<T> exp_avg, exp_avg_sq;
  Staged<T> gradient;
};

template <class T>
struct SgdOperands {
  Updated<T> weights;
  Moment<T> buffers;
  Staged<T> gradient;
};

template <class T>
void update(const AdamWStep<T>& step, const AdamWState<T>& at, std::int64_t n, bool decay) {
  const T keep = decay ? step.decay : T{1};
  each(n, [=](std::int64_t i) {
    const AdamWElement<T> next = updated(step, keep, at.gradient[i], {at.weight[i], at.exp_avg[i], at.exp_avg_sq[i]});
    at.weight[i] = next.weight;
    at.exp_avg[i] = next.exp_avg;
    at.exp_avg_sq[i] = next.exp_avg_sq;
  });
}

}  // namespace

template <class T>
void compute(const Accumulate& op, Call& call) {
  if (op.source == DType::int32) return accumulate<std::int32_t, std::int32_t>(op, call);
  const bool from_double = op.source == DType::fp64, to_double = op.destination == DType::fp64;
  if (from_double) return to_double ? accumulate<double, double>(op, call) : accumulate<double, float>(op, call);
  to_double ? accumulate<float, double>(op, call) : accumulate<float, float>(op, call);
}

template <class T>
void compute(const GradNorm& op, Call& call) {
  const Tensor& gradients = call.input(0);
  ExactSum sum;
  for (const PieceRow& p : call.pieces()) {
    require(p.state + p.count <= op.elements, "a parameter lies beyond the gradients of what the rank updates");
    if (p.counted) with_values<T>(gradients, p.gradient, [&](auto value) { add_squares(call, p, sum, value); });
  }
  std::ranges::copy(sum.words(), call.out<std::int64_t>(0));
}

template <class T>
void compute(const ClipCoefficient& op, Call& call) {
  StepTable& table = call.table();
  clip(ExactSum::value(call.in<std::int64_t>(0)), op.clip_grad, table);
  if (op.scale) move_scale(*op.scale, table);
}

template <class T>
void compute(const AdamW& op, Call& call) {
  const StepTable& table = call.table();
  if (table.found_nonfinite) return;
  const AdamWStep<T> step(op, table);
  const auto make = [&] {
    return AdamWOperands<T>{{call, op, {0, op.master ? 3 : -1}},
                            {call, op, 1, Rounding::Of::exp_avg},
                            {call, op, 2, Rounding::Of::exp_avg_sq},
                            {}};
  };
  for (const PieceRow& p : call.pieces()) {
    if (p.matrices.any()) continue;
    require(p.second() + p.count <= op.elements, "a parameter lies beyond the optimizer's states");
    each_range(call, p, make, [&](AdamWOperands<T>& of, std::int64_t first, std::int64_t n) {
      auto& [weights, exp_avg, exp_avg_sq, gradient] = of;
      if (p.sign_step >= 0) return step_by_sign(p, {call.input(0), p.gradient + first, n}, gradient, weights);
      const AdamWState<T> at{gradient.get({call.input(0), p.gradient + first, n}), weights.get(p, first, n),
                             exp_avg.get(p, first, n), exp_avg_sq.get(p, first, n)};
      update(step, at, n, p.decay);
      weights.put();
      exp_avg.put();
      exp_avg_sq.put();
    });
  }
}

// PyTorch's SGD without dampening: g += decay w, buffer = momentum buffer + g, w -= rate buffer.
template <class T>
void compute(const Sgd& op, Call& call) {
  const StepTable& table = call.table();
  if (table.found_nonfinite) return;
  const T momentum = static_cast<T>(op.momentum), clip = static_cast<T>(table.clip_coefficient);
  const T rate = static_cast<T>(table.learning_rate);
  const bool has_buffer = op.momentum > 0;
  const auto make = [&] {
    return SgdOperands<T>{{call, op, {0, op.master ? (has_buffer ? 2 : 1) : -1}}, {call, op, 1, Rounding::Of::exp_avg}, {}};
  };
  for (const PieceRow& p : call.pieces()) {
    require(p.state + p.count <= op.elements, "a parameter lies beyond the optimizer's states");
    const T decay = p.decay ? static_cast<T>(op.weight_decay) : T{0};
    each_range(call, p, make, [&](SgdOperands<T>& of, std::int64_t first, std::int64_t n) {
      auto& [weights, buffers, gradient] = of;
      if (p.sign_step >= 0) return step_by_sign(p, {call.input(0), p.gradient + first, n}, gradient, weights);
      const T* g = gradient.get({call.input(0), p.gradient + first, n});
      T* w = weights.get(p, first, n);
      if (!has_buffer) {
        each(n, [=](std::int64_t i) { w[i] -= rate * (g[i] * clip + decay * w[i]); });
        return weights.put();
      }
      each(n, [=, buffer = buffers.get(p, first, n)](std::int64_t i) {
        buffer[i] = momentum * buffer[i] + (g[i] * clip + decay * w[i]);
        w[i] -= rate * buffer[i];
      });
      weights.put();
      buffers.put();
    });
  }
}

TANDEM_KERNEL(Accumulate);
TANDEM_KERNEL(GradNorm);
TANDEM_KERNEL(ClipCoefficient);
TANDEM_KERNEL(AdamW);
TANDEM_KERNEL(Sgd);

}  // namespace tandem::exec::cpu
