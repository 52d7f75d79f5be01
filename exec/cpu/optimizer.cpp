// Gradient accumulation, the global norm, AdamW and SGD.
#include <cmath>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/pieces.hpp"
#include "exec/cpu/staged.hpp"
#include "exec/cpu/updated.hpp"

namespace tandem::exec::cpu {
namespace {

template <class Source, class Destination>
void accumulate(const Accumulate& op, Call& call) {
  const Source* source = call.in<Source>(0);
  Destination* sum = call.out<Destination>(0);
  if (op.overwrite) return each(op.elements, [=](std::int64_t i) { sum[i] = static_cast<Destination>(source[i]); });
  each(op.elements, [=](std::int64_t i) { sum[i] += static_cast<Destination>(source[i]); });
}

double clip_coefficient(double norm, double clip_grad) {
  if (clip_grad <= 0) return 1;
  return std::min(1.0, clip_grad / (norm + 1e-6));  // torch.nn.utils.clip_grad_norm_
}

// What gradients of the next step are scaled by (models/plan/loss_scale.hpp).
void move_scale(const LossScale& rule, StepTable& table) {
  const std::int64_t good = table.good_steps + 1, bad = std::min<std::int64_t>(table.bad_steps + 1, rule.hysteresis);
  if (table.found_nonfinite) {
    table.good_steps = 0;
    table.bad_steps = static_cast<std::uint32_t>(bad);
    if (bad == rule.hysteresis) table.loss_scale = std::max(table.loss_scale / 2, rule.minimum);
  } else if (good < rule.window) {
    table.good_steps = static_cast<std::uint32_t>(good);
  } else {
    table.good_steps = table.bad_steps = 0;
    table.loss_scale *= 2;
  }
}

template <class T>
struct AdamWStep {
  T beta1, beta2, epsilon, clip, decay, step_size, sqrt_correction2;

  AdamWStep(const AdamW& op, const StepTable& s)
      : beta1(static_cast<T>(op.beta1)),
        beta2(static_cast<T>(op.beta2)),
        epsilon(static_cast<T>(op.epsilon)),
        clip(static_cast<T>(s.clip_coefficient)),
        decay(static_cast<T>(1 - s.learning_rate * op.weight_decay)),
        step_size(static_cast<T>(s.learning_rate / s.bias_correction1)),
        sqrt_correction2(static_cast<T>(std::sqrt(s.bias_correction2))) {}
};

template <class T>
struct AdamWState {
  const T* gradient;
  T *weight, *exp_avg, *exp_avg_sq;
};

// PyTorch's AdamW (decoupled decay, Loshchilov and Hutter, arXiv 1711.05101), operation by operation.
template <class T>
void update(const AdamWStep<T>& step, const AdamWState<T>& at, std::int64_t n, bool decay) {
  const T keep = decay ? step.decay : T{1};
  const T one_minus_beta1 = T{1} - step.beta1, one_minus_beta2 = T{1} - step.beta2;
  each(n, [=](std::int64_t i) {
    const T g = at.gradient[i] * step.clip;
    const T m = step.beta1 * at.exp_avg[i] + one_minus_beta1 * g;
    const T v = step.beta2 * at.exp_avg_sq[i] + one_minus_beta2 * g * g;
    const T denominator = std::sqrt(v) / step.sqrt_correction2 + step.epsilon;
    at.weight[i] = at.weight[i] * keep - step.step_size * (m / denominator);
    at.exp_avg[i] = m;
    at.exp_avg_sq[i] = v;
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
    if (p.counted) with_values<T>(gradients, p.gradient, [&](auto value) { add_squares(p, sum, value); });
  }
  std::ranges::copy(sum.words(), call.out<std::int64_t>(0));
}

// Gradients carry the scale that the step began with.
template <class T>
void compute(const ClipCoefficient& op, Call& call) {
  const double total = ExactSum::value(call.in<std::int64_t>(0));
  StepTable& table = call.table();
  table.grad_norm = std::sqrt(total) * table.inverse_scale;
  table.found_nonfinite = !std::isfinite(total);
  table.clip_coefficient = table.found_nonfinite ? 0 : clip_coefficient(table.grad_norm, op.clip_grad) * table.inverse_scale;
  if (op.scale) move_scale(*op.scale, table);
}

template <class T>
void compute(const AdamW& op, Call& call) {
  const StepTable& table = call.table();
  if (table.found_nonfinite) return;
  const AdamWStep<T> step(op, table);
  Updated<T> weights(call, op, {0, op.master ? 3 : -1});
  Moment<T> exp_avg(call, op, 1, Rounding::Of::exp_avg), exp_avg_sq(call, op, 2, Rounding::Of::exp_avg_sq);
  Staged<T> gradient;
  for (const PieceRow& p : call.pieces()) {
    require(p.state + p.count <= op.elements, "a parameter lies beyond the optimizer's states");
    each_stretch(p, [&](std::int64_t first, std::int64_t n) {
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
  Updated<T> weights(call, op, {0, op.master ? (has_buffer ? 2 : 1) : -1});
  Moment<T> buffers(call, op, 1, Rounding::Of::exp_avg);
  Staged<T> gradient;
  for (const PieceRow& p : call.pieces()) {
    require(p.state + p.count <= op.elements, "a parameter lies beyond the optimizer's states");
    const T decay = p.decay ? static_cast<T>(op.weight_decay) : T{0};
    each_stretch(p, [&](std::int64_t first, std::int64_t n) {
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
