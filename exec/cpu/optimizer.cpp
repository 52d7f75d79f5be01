// Gradient accumulation, the global norm and AdamW.
#include <cmath>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/lanes.hpp"

namespace tandem::exec::cpu {
namespace {

constexpr std::int64_t kNormBlock = 4096;  // elements; changing it changes the last bits of every norm

template <class Source, class Destination>
void accumulate(const Accumulate& op, Call& call) {
  const Source* source = call.in<Source>(0);
  Destination* sum = call.out<Destination>(0);
  each(op.elements, [=](std::int64_t i) { sum[i] += static_cast<Destination>(source[i]); });
}

// Ordered sum of block sums; blocks count from the parameter's own start.
template <class T>
double sum_of_squares(const T* g, std::int64_t n) {
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kNormBlock) {
    total += lane_sum<double>(std::min(kNormBlock, n - begin), [=, at = g + begin](std::int64_t i) {
      return static_cast<double>(at[i]) * static_cast<double>(at[i]);
    });
  }
  return total;
}

// A replicated parameter is the same on every tensor rank and counts once.
bool counts_here(const Param& p, const KernelContext& context) {
  return p.in_norm && (p.shard_dim >= 0 || context.tensor_rank == 0);
}

double clip_coefficient(double norm, double clip_grad) {
  if (clip_grad <= 0) return 1;
  return std::min(1.0, clip_grad / (norm + 1e-6));  // torch.nn.utils.clip_grad_norm_
}

template <class T>
struct AdamWStep {
  T beta1, beta2, epsilon, clip, decay, step_size, sqrt_correction2;

  AdamWStep(const AdamW& op, const Scalars& s)
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

  AdamWState operator+(std::int64_t n) const { return {gradient + n, weight + n, exp_avg + n, exp_avg_sq + n}; }
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
  const bool from_double = op.source == DType::fp64, to_double = op.destination == DType::fp64;
  if (from_double) return to_double ? accumulate<double, double>(op, call) : accumulate<double, float>(op, call);
  to_double ? accumulate<float, double>(op, call) : accumulate<float, float>(op, call);
}

template <class T>
void compute(const GradNorm& op, Call& call) {
  const T* gradients = call.in<T>(0);
  double* partial = call.out<double>(0);
  std::fill_n(partial, op.global_parameters, 0.0);
  for (const Param& p : call.context().params) {
    require(p.global_index >= 0 && p.global_index < op.global_parameters,
            "a parameter's index is beyond the norm vector");
    require(p.offset + p.rows * p.cols <= op.elements, "a parameter lies beyond the flat gradients");
    if (counts_here(p, call.context())) {
      partial[p.global_index] = sum_of_squares(gradients + p.offset, p.rows * p.cols);
    }
  }
}

template <class T>
void compute(const ClipCoefficient& op, Call& call) {
  const double* partial = call.in<double>(0);
  double total = 0;
  for (std::int64_t i = 0; i < op.global_parameters; ++i) total += partial[i];
  Scalars& scalars = call.scalars();
  scalars.grad_norm = std::sqrt(total);
  scalars.found_nonfinite = !std::isfinite(total);
  scalars.clip_coefficient = scalars.found_nonfinite ? 0 : clip_coefficient(scalars.grad_norm, op.clip_grad);
}

template <class T>
void compute(const AdamW& op, Call& call) {
  const Scalars& scalars = call.scalars();
  if (scalars.found_nonfinite) return;
  const AdamWStep<T> step(op, scalars);
  const AdamWState<T> state{call.in<T>(0), call.out<T>(0), call.out<T>(1), call.out<T>(2)};
  for (const Param& p : call.context().params) {
    require(p.offset + p.rows * p.cols <= op.elements, "a parameter lies beyond the flat weights");
    update(step, state + p.offset, p.rows * p.cols, p.decay);
  }
}

TANDEM_KERNEL(Accumulate);
TANDEM_KERNEL(GradNorm);
TANDEM_KERNEL(ClipCoefficient);
TANDEM_KERNEL(AdamW);

}  // namespace tandem::exec::cpu
