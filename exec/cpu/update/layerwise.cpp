// LAMB (You et al., arXiv 1904.00962, algorithm 2) and LANS (Zheng et al., arXiv 2006.13484, algorithm 2). Adam's update of each
// tensor is scaled by norm(weights) / norm(update). phi is the identity; if a norm is 0 the factor is 1.
#include <array>
#include <cmath>
#include <mutex>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/pieces.hpp"
#include "exec/cpu/split.hpp"
#include "exec/cpu/staged.hpp"
#include "exec/cpu/updated.hpp"

namespace tandem::exec::cpu {
namespace {

// The i-th of `n` exact sums of a parameter.
std::int64_t* words_of(std::int64_t* sums, const PieceRow& p, std::int64_t n, std::int64_t i) {
  return sums + (p.global_index * n + i) * kExactWords;
}
double norm_of(const std::int64_t* sums, const PieceRow& p, std::int64_t n, std::int64_t i) {
  return std::sqrt(ExactSum::value(sums + (p.global_index * n + i) * kExactWords));
}

template <class Op>
void check_piece(const Op& op, const PieceRow& p, std::int64_t begin) {
  require(p.global_index >= 0 && p.global_index < op.global_parameters, "a parameter's index is beyond the sums");
  require(begin + p.count <= op.elements, "a parameter lies beyond its buffers");
}

double ratio(double weights, double update) { return weights > 0 && update > 0 ? weights / update : 1; }

// Initial factor on a gradient: LAMB clips it, LANS divides it by its tensor's norm.
template <class Op>
double gradient_factor(const Op& op, const StepTable& table, const std::int64_t* gradient_sums, const PieceRow& p) {
  if (op.kind == LayerwiseKind::lamb) return table.clip_coefficient;
  const double norm = norm_of(gradient_sums, p, 1, 0);
  return norm > 0 ? 1 / norm : 0;
}

// Constants of one element's update.
template <class T>
struct Terms {
  T correction1, sqrt_correction2, epsilon, decay;

  template <class Op>
  Terms(const Op& op, const StepTable& s, const PieceRow& p)
      : correction1(static_cast<T>(s.bias_correction1)), sqrt_correction2(static_cast<T>(std::sqrt(s.bias_correction2))),
        epsilon(static_cast<T>(op.epsilon)), decay(p.decay ? static_cast<T>(op.weight_decay) : T{0}) {}

  T denominator(T v) const { return std::sqrt(v) / sqrt_correction2 + epsilon; }
  T momentum(T w, T m, T v) const { return m / correction1 / denominator(v) + decay * w; }
  T gradient(T w, T g, T v) const { return g / denominator(v) + decay * w; }
};

// A range of a parameter piece, in the operands of either operation.
template <class T>
struct Piece {
  const PieceRow& piece;
  ElementRange range;
  const T *gradient, *weight;
  T factor;  // on the gradient

  std::int64_t count() const { return range.end - range.first; }
};

template <class T>
void update_moments(const LayerwiseMoments& op, const Piece<T>& at, T* m, T* v) {
  const T beta1 = static_cast<T>(op.beta1), beta2 = static_cast<T>(op.beta2);
  each(at.count(), [=](std::int64_t i) {
    const T g = at.gradient[i] * at.factor;
    m[i] = beta1 * m[i] + (T{1} - beta1) * g;
    v[i] = beta2 * v[i] + (T{1} - beta2) * g * g;
  });
}

template <class T>
void add_norms(const LayerwiseMoments& op, const Terms<T>& terms, const Piece<T>& at, const T* m, const T* v,
               std::array<ExactSum, 3>& sums) {
  const auto add = [&](std::size_t of, auto value) {
    add_squares(at.piece, at.range, sums[of], [&](std::int64_t i) { return value(i - at.range.first); });
  };
  add(0, [&](std::int64_t i) { return at.weight[i]; });
  add(1, [&](std::int64_t i) { return terms.momentum(at.weight[i], m[i], v[i]); });
  if (op.kind == LayerwiseKind::lans)
    add(2, [&](std::int64_t i) { return terms.gradient(at.weight[i], at.gradient[i] * at.factor, v[i]); });
}

// Factors on the two terms of an update, including the learning rate.
template <class T>
struct Factors {
  T momentum, gradient;

  Factors(const LayerwiseApply& op, const std::int64_t* sums, const PieceRow& p, double learning_rate) {
    const double weights = norm_of(sums, p, op.norms(), 0), first = ratio(weights, norm_of(sums, p, op.norms(), 1));
    const bool lans = op.kind == LayerwiseKind::lans;
    momentum = static_cast<T>(learning_rate * first * (lans ? op.beta1 : 1));
    gradient = T{0};
    if (lans) gradient = static_cast<T>(learning_rate * ratio(weights, norm_of(sums, p, op.norms(), 2)) * (1 - op.beta1));
  }
};

template <class T>
void apply(const LayerwiseApply& op, const Terms<T>& terms, const Factors<T>& factors, const Piece<T>& at, const T* m, const T* v,
           T* weight) {
  if (op.kind == LayerwiseKind::lamb)
    return each(at.count(), [=](std::int64_t i) { weight[i] -= factors.momentum * terms.momentum(weight[i], m[i], v[i]); });
  each(at.count(), [=](std::int64_t i) {
    const T w = weight[i], g = at.gradient[i] * at.factor;
    weight[i] = w - (factors.momentum * terms.momentum(w, m[i], v[i]) + factors.gradient * terms.gradient(w, g, v[i]));
  });
}

// A thread's operands while it processes its ranges.
template <class T>
struct ApplyOperands {
  Updated<T> weights;
  Staged<T> gradients, exp_avg, exp_avg_sq;
};

}  // namespace

template <class T>
void compute(const TensorNorms& op, Call& call) {
  std::int64_t* sums = call.out<std::int64_t>(0);
  std::fill_n(sums, op.global_parameters * kExactWords, 0);
  for (const PieceRow& p : call.pieces()) {
    check_piece(op, p, p.state);
    if (!p.counted) continue;
    ExactSum sum;
    with_values<T>(call.input(0), p.gradient, [&](auto value) { add_squares(call, p, sum, value); });
    sum.add_to(words_of(sums, p, 1, 0));
  }
}

// Norms use the moments as stored, because LayerwiseApply reads those.
template <class T>
void compute(const LayerwiseMoments& op, Call& call) {
  const StepTable& table = call.table();
  const std::int64_t* gradient_sums = op.kind == LayerwiseKind::lans ? call.in<std::int64_t>(4) : nullptr;
  std::int64_t* sums = call.out<std::int64_t>(2);
  std::fill_n(sums, op.global_parameters * op.norms() * kExactWords, 0);
  if (table.found_nonfinite) return;
  for (const PieceRow& p : call.pieces()) {
    check_piece(op, p, p.state);
    if (p.sign_step >= 0) continue;
    const auto factor = static_cast<T>(gradient_factor(op, table, gradient_sums, p));
    std::array<ExactSum, 3> squares;
    std::mutex mutex;
    each_blocks(call, p, [&](const ElementRange& of) {
      Moment<T> exp_avg(call, op, 0, Rounding::Of::exp_avg), exp_avg_sq(call, op, 1, Rounding::Of::exp_avg_sq);
      Staged<T> gradients, weights;
      const std::int64_t first = of.first, n = of.end - first;
      const Piece<T> at{p, of, gradients.get({call.input(0), p.gradient + first, n}),
                        weights.get({call.input(1), (op.master ? p.state : p.weight) + first, n}), factor};
      update_moments(op, at, exp_avg.get(p, first, n), exp_avg_sq.get(p, first, n));
      exp_avg.put();
      exp_avg_sq.put();
      if (!p.counted) return;
      std::array<ExactSum, 3> part;
      add_norms(op, Terms<T>(op, table, p), at, exp_avg.get(p, first, n), exp_avg_sq.get(p, first, n), part);
      const std::lock_guard guard(mutex);
      for (std::size_t i = 0; i < part.size(); ++i) squares[i].add(part[i]);
    });
    if (!p.counted) continue;
    for (std::int64_t i = 0; i < op.norms(); ++i) squares[static_cast<std::size_t>(i)].add_to(words_of(sums, p, op.norms(), i));
  }
}

template <class T>
void compute(const LayerwiseApply& op, Call& call) {
  const StepTable& table = call.table();
  if (table.found_nonfinite) return;
  const std::int64_t *sums = call.in<std::int64_t>(3), *gradient_sums = nullptr;
  if (op.kind == LayerwiseKind::lans) gradient_sums = call.in<std::int64_t>(4);
  for (const PieceRow& p : call.pieces()) {
    check_piece(op, p, p.state);
    const auto factor = static_cast<T>(gradient_factor(op, table, gradient_sums, p));
    const Factors<T> factors(op, sums, p, table.learning_rate);
    const auto make = [&] { return ApplyOperands<T>{{call, op, {0, op.master ? 1 : -1}}, {}, {}, {}}; };
    each_range(call, p, make, [&](ApplyOperands<T>& of, std::int64_t first, std::int64_t n) {
      const Elements gradients{call.input(0), p.gradient + first, n};
      if (p.sign_step >= 0) return step_by_sign(p, gradients, of.gradients, of.weights);
      T* weight = of.weights.get(p, first, n);
      const Piece<T> at{p, {first, first + n}, of.gradients.get(gradients), weight, factor};
      apply(op, Terms<T>(op, table, p), factors, at, of.exp_avg.get({call.input(1), p.state + first, n}),
            of.exp_avg_sq.get({call.input(2), p.state + first, n}), weight);
      of.weights.put();
    });
  }
}

TANDEM_KERNEL(TensorNorms);
TANDEM_KERNEL(LayerwiseMoments);
TANDEM_KERNEL(LayerwiseApply);

}  // namespace tandem::exec::cpu
