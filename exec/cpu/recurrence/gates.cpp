// RMS norms with a SiLU gate, and sigmoid gates. Rows are shared among threads, gradients of weights by columns.

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/root_mean.hpp"
#include "exec/cpu/split.hpp"
#include "exec/shared/gated_norm.hpp"

namespace tandem::exec::cpu {
namespace {

// One part of a row.
template <class T>
struct Part {
  const T *x, *gate, *weight;
  std::int64_t cols;
};

// Calls body(part's number, its start) for all parts of all rows. A row's parts run in order on one thread.
template <class Op, class F>
void each_part(const Op& op, const Call& call, F body) {
  each_row(call, op.rows, op.parts * op.cols, [&](std::int64_t row) {
    for (std::int64_t p = 0; p < op.parts; ++p) body(row * op.parts + p, (row * op.parts + p) * op.cols);
  });
}

template <class Op>
std::int64_t first_weight(const Op& op, std::int64_t part) {
  return op.same_weights ? 0 : part % op.parts * op.cols;
}

// Calls body(gate_first) with a constant, so that its loops vectorise.
template <class F>
void with_order(bool gate_first, F body) {
  gate_first ? body(std::true_type()) : body(std::false_type());
}

template <bool gate_first, class T>
void part_backward(const Part<T>& p, const T* dy, T r, T* dx, T* dgate) {
  const T *x = p.x, *g = p.gate, *w = p.weight;
  const T mean = lane_sum<T>(p.cols, [=](std::int64_t c) {
                   return dy[c] * w[c] * behind_norm<gate_first>(g[c]) * (normed<gate_first>(x[c], g[c]) * r);
                 }) / static_cast<T>(p.cols);
  each(p.cols, [=](std::int64_t c) {
    const GatedNormGradient<T> d = gated_norm_gradient<gate_first>(x[c], g[c], dy[c] * w[c], r, mean);
    dx[c] = d.dx;
    dgate[c] = d.dgate;
  });
}

// Sums over rows, and over parts with the same weights, in order.
template <bool gate_first, class T>
void weight_gradient(const GatedNormBackward& op, Call& call) {
  const T *dy = call.in<T>(0), *x = call.in<T>(1), *gate = call.in<T>(2), *rms = call.in<T>(4);
  T* const sum = call.out<T>(2);
  each_columns(call, op.rows * op.parts, op.weights(), [&](std::int64_t first, std::int64_t end) {
    std::fill(sum + first, sum + end, T{0});
    for (std::int64_t part = 0; part < op.rows * op.parts; ++part) {
      const std::int64_t from = std::max(first, first_weight(op, part)), to = std::min(end, first_weight(op, part) + op.cols);
      const std::int64_t at = part * op.cols + from - first_weight(op, part);
      each(std::max<std::int64_t>(0, to - from), [=, r = rms[part], total = sum + from](std::int64_t c) {
        const T g = gate[at + c];
        total[c] += dy[at + c] * (normed<gate_first>(x[at + c], g) * r) * behind_norm<gate_first>(g);
      });
    }
  });
}

}  // namespace

template <class T>
void compute(const GatedNorm& op, Call& call) {
  const T *x = call.in<T>(0), *gate = call.in<T>(1), *weight = call.in<T>(2);
  T *y = call.out<T>(0), *rms = call.out<T>(1);
  with_order(op.gate_first, [&](auto order) {
    constexpr bool gate_first = decltype(order)::value;
    each_part(op, call, [&](std::int64_t part, std::int64_t at) {
      const T *w = weight + first_weight(op, part), *g = gate + at, *in = x + at;
      T* out = y + at;
      each(op.cols, [=](std::int64_t c) { out[c] = normed<gate_first>(in[c], g[c]); });
      const T r = rms[part] = inverse_root(out, op.cols, op.epsilon);
      each(op.cols, [=](std::int64_t c) { out[c] = out[c] * r * w[c] * behind_norm<gate_first>(g[c]); });
    });
  });
}

template <class T>
void compute(const GatedNormBackward& op, Call& call) {
  const T *dy = call.in<T>(0), *x = call.in<T>(1), *gate = call.in<T>(2), *weight = call.in<T>(3), *rms = call.in<T>(4);
  T *dx = call.out<T>(0), *dgate = call.out<T>(1);
  with_order(op.gate_first, [&](auto order) {
    constexpr bool gate_first = decltype(order)::value;
    weight_gradient<gate_first, T>(op, call);
    each_part(op, call, [&](std::int64_t part, std::int64_t at) {
      const Part<T> p{x + at, gate + at, weight + first_weight(op, part), op.cols};
      part_backward<gate_first>(p, dy + at, rms[part], dx + at, dgate + at);
    });
  });
}

template <class T>
void compute(const SigmoidGate& op, Call& call) {
  const T *x = call.in<T>(0), *gate = call.in<T>(1);
  each(call, op.elements, [=, y = call.out<T>(0)](std::int64_t i) { y[i] = x[i] * Silu::sigmoid(gate[i]); });
}

template <class T>
void compute(const SigmoidGateBackward& op, Call& call) {
  const T *dy = call.in<T>(0), *x = call.in<T>(1), *gate = call.in<T>(2);
  T *dx = call.out<T>(0), *dgate = call.out<T>(1);
  each(call, op.elements, [=](std::int64_t i) {
    const T s = Silu::sigmoid(gate[i]), d = dy[i];
    dx[i] = d * s;
    dgate[i] = d * x[i] * s * (T{1} - s);
  });
}

TANDEM_KERNEL(GatedNorm);
TANDEM_KERNEL(GatedNormBackward);
TANDEM_KERNEL(SigmoidGate);
TANDEM_KERNEL(SigmoidGateBackward);

}  // namespace tandem::exec::cpu
