// RMS norms with a SiLU gate, and sigmoid gates. Rows are shared among threads, gradients of weights by columns.
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/root_mean.hpp"
#include "exec/cpu/split.hpp"
#include "exec/shared/activations.hpp"

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

// The number that the norm reads.
template <class T>
T normed(bool gate_first, T x, T gate) {
  return gate_first ? x * Silu::value(gate) : x;
}

// y = w norm(x) silu(g): with a = dy w silu(g), dx = r (a - xhat mean(a xhat)), dg = dy w xhat silu'(g).
// y = w norm(u), u = x silu(g): du = r (dy w - uhat mean(dy w uhat)), dx = du silu(g), dg = du x silu'(g).
template <class T>
void part_backward(bool gate_first, const Part<T>& p, const T* dy, T r, T* dx, T* dgate) {
  const T *x = p.x, *g = p.gate, *w = p.weight;
  const auto at = [=](std::int64_t c) { return gate_first ? dy[c] * w[c] : dy[c] * w[c] * Silu::value(g[c]); };
  const T mean =
      lane_sum<T>(p.cols, [=](std::int64_t c) { return at(c) * (normed(gate_first, x[c], g[c]) * r); }) / static_cast<T>(p.cols);
  each(p.cols, [=](std::int64_t c) {
    const T hat = normed(gate_first, x[c], g[c]) * r, d = r * (at(c) - hat * mean);
    dx[c] = gate_first ? d * Silu::value(g[c]) : d;
    dgate[c] = (gate_first ? d * x[c] : dy[c] * w[c] * hat) * Silu::derivative(g[c]);
  });
}

// Sums over rows, and over parts with the same weights, in order.
template <class T>
void weight_gradient(const GatedNormBackward& op, Call& call) {
  const T *dy = call.in<T>(0), *x = call.in<T>(1), *gate = call.in<T>(2), *rms = call.in<T>(4);
  T* const sum = call.out<T>(2);
  each_columns(call, op.rows * op.parts, op.weights(), [&](std::int64_t first, std::int64_t end) {
    std::fill(sum + first, sum + end, T{0});
    for (std::int64_t part = 0; part < op.rows * op.parts; ++part) {
      const std::int64_t from = std::max(first, first_weight(op, part)), to = std::min(end, first_weight(op, part) + op.cols);
      const std::int64_t at = part * op.cols + from - first_weight(op, part);
      each(std::max<std::int64_t>(0, to - from), [=, r = rms[part], whole = op.gate_first](std::int64_t c) {
        const T hat = normed(whole, x[at + c], gate[at + c]) * r;
        sum[from + c] += dy[at + c] * (whole ? hat : hat * Silu::value(gate[at + c]));
      });
    }
  });
}

}  // namespace

template <class T>
void compute(const GatedNorm& op, Call& call) {
  const T *x = call.in<T>(0), *gate = call.in<T>(1), *weight = call.in<T>(2);
  T *y = call.out<T>(0), *rms = call.out<T>(1);
  each_part(op, call, [&](std::int64_t part, std::int64_t at) {
    const T *w = weight + first_weight(op, part), *g = gate + at, *in = x + at;
    T* out = y + at;
    const bool whole = op.gate_first;
    each(op.cols, [=](std::int64_t c) { out[c] = normed(whole, in[c], g[c]); });
    const T r = rms[part] = inverse_root(out, op.cols, op.epsilon);
    each(op.cols, [=](std::int64_t c) { out[c] = out[c] * r * w[c] * (whole ? T{1} : Silu::value(g[c])); });
  });
}

template <class T>
void compute(const GatedNormBackward& op, Call& call) {
  const T *dy = call.in<T>(0), *x = call.in<T>(1), *gate = call.in<T>(2), *weight = call.in<T>(3), *rms = call.in<T>(4);
  T *dx = call.out<T>(0), *dgate = call.out<T>(1);
  weight_gradient<T>(op, call);
  each_part(op, call, [&](std::int64_t part, std::int64_t at) {
    const Part<T> p{x + at, gate + at, weight + first_weight(op, part), op.cols};
    part_backward(op.gate_first, p, dy + at, rms[part], dx + at, dgate + at);
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
