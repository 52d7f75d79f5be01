// Layer normalisation (Ba et al., arXiv 1607.06450, equation 4), RMSNorm (arXiv 1910.07467, equation 4), their gradients.
#include <cmath>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/split.hpp"

namespace tandem::exec::cpu {
namespace {

template <class T>
struct Stats {
  T mean, rstd;
};

// Two passes: the variance about the mean, not a difference of two large squares.
template <class T>
Stats<T> row_stats(const T* x, std::int64_t n, const LayerNorm& op) {
  const T count = static_cast<T>(n);
  const T mean = op.rms ? T{0} : lane_sum<T>(n, [=](std::int64_t c) { return x[c]; }) / count;
  const T variance = lane_sum<T>(n, [=](std::int64_t c) { return (x[c] - mean) * (x[c] - mean); }) / count;
  return {mean, T{1} / std::sqrt(variance + static_cast<T>(op.epsilon))};
}

template <class T>
struct ForwardRow {
  const T *x, *gamma, *beta;  // beta may be null
};

template <class T>
void write_row(const LayerNorm& op, const ForwardRow<T>& of, T* y, T* stats) {
  const T *x = of.x, *gamma = of.gamma, *beta = of.beta;
  const Stats<T> s = row_stats(x, op.cols, op);
  if (op.rms)
    each(op.cols, [=](std::int64_t c) { y[c] = x[c] * s.rstd * gamma[c]; });
  else if (beta == nullptr)
    each(op.cols, [=](std::int64_t c) { y[c] = (x[c] - s.mean) * s.rstd * gamma[c]; });
  else
    each(op.cols, [=](std::int64_t c) { y[c] = (x[c] - s.mean) * s.rstd * gamma[c] + beta[c]; });
  stats[0] = s.mean;
  stats[1] = s.rstd;
}

template <class T>
struct BackwardRow {
  const T *dy, *x, *gamma, *residual;  // residual may be null
  Stats<T> stats;
  bool rms;
  T *dx, *dgamma, *dbeta;              // null if not wanted

  T xhat(std::int64_t c) const { return (x[c] - stats.mean) * stats.rstd; }

  // Adds the parameters' gradients of columns [first, end).
  void add_parameter_gradients(std::int64_t first, std::int64_t end) const {
    const auto at = [=](std::int64_t i) { return first + i; };
    if (dgamma != nullptr)
      each(end - first, [=, row = *this](std::int64_t i) { row.dgamma[at(i)] += row.dy[at(i)] * row.xhat(at(i)); });
    if (dbeta != nullptr) each(end - first, [=, row = *this](std::int64_t i) { row.dbeta[at(i)] += row.dy[at(i)]; });
  }

  // With g = dy gamma: dx = rstd (g - mean(g) - xhat mean(g xhat)). For RMS norms there is no mean(g).
  void write_dx(std::int64_t n) const {
    if (dx == nullptr) return;
    const T count = static_cast<T>(n);
    const BackwardRow row = *this;
    const T mean_g = rms ? T{0} : lane_sum<T>(n, [=](std::int64_t c) { return row.dy[c] * row.gamma[c]; }) / count;
    const T mean_gx = lane_sum<T>(n, [=](std::int64_t c) { return row.dy[c] * row.gamma[c] * row.xhat(c); }) / count;
    const auto gradient = [=](std::int64_t c) {
      return row.stats.rstd * (row.dy[c] * row.gamma[c] - mean_g - row.xhat(c) * mean_gx);
    };
    if (residual == nullptr)
      each(n, [=](std::int64_t c) { row.dx[c] = gradient(c); });
    else
      each(n, [=](std::int64_t c) { row.dx[c] = gradient(c) + row.residual[c]; });
  }
};

}  // namespace

template <class T>
void compute(const LayerNorm& op, Call& call) {
  const T *x = call.in<T>(0), *gamma = call.in<T>(1), *beta = op.has_beta() ? call.in<T>(2) : nullptr;
  T *y = call.out<T>(0), *stats = call.out<T>(1);
  each_row(call, op.rows, op.cols, [=, &op](std::int64_t r) {
    write_row<T>(op, {x + r * op.cols, gamma, beta}, y + r * op.cols, stats + 2 * r);
  });
}

template <class T>
void compute(const LayerNormBackward& op, Call& call) {
  const bool input = op.part != NormPart::parameters, parameters = op.part != NormPart::input;
  const std::size_t first = input ? 1 : 0;
  const T *dy = call.in<T>(0), *x = call.in<T>(1), *stats = call.in<T>(2), *gamma = input ? call.in<T>(3) : nullptr;
  const T* residual = op.add_residual ? call.in<T>(4) : nullptr;
  T* dx = input ? call.out<T>(0) : nullptr;
  T *dgamma = parameters ? call.out<T>(first) : nullptr, *dbeta = parameters && op.has_beta() ? call.out<T>(first + 1) : nullptr;
  const auto row = [=, &op](std::int64_t r) {
    const std::int64_t at = r * op.cols;
    return BackwardRow<T>{dy + at, x + at, gamma, residual == nullptr ? nullptr : residual + at, {stats[2 * r], stats[2 * r + 1]},
                          op.rms, dx == nullptr ? nullptr : dx + at, dgamma, dbeta};
  };
  if (parameters)
    each_columns(call, op.rows, op.cols, [&](std::int64_t begin, std::int64_t end) {
      if (dgamma != nullptr) std::fill(dgamma + begin, dgamma + end, T{0});
      if (dbeta != nullptr) std::fill(dbeta + begin, dbeta + end, T{0});
      for (std::int64_t r = 0; r < op.rows; ++r) row(r).add_parameter_gradients(begin, end);
    });
  if (input) each_row(call, op.rows, op.cols, [&](std::int64_t r) { row(r).write_dx(op.cols); });
}

TANDEM_KERNEL(LayerNorm);
TANDEM_KERNEL(LayerNormBackward);

}  // namespace tandem::exec::cpu
