// Gated activations (Shazeer, arXiv 2002.05202) and their exact derivatives.
#include "exec/shared/activations.hpp"
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/split.hpp"

namespace tandem::exec::cpu {
namespace {

template <class F>
void with_gate(GateKind kind, F body) {
  switch (kind) {
    case GateKind::silu: return body(Gate<Silu>{});
    case GateKind::gelu_tanh: return body(Gate<GeluTanh>{});
    case GateKind::clamped_silu: return body(ClampedSilu{});
  }
}

}  // namespace

template <class T>
void compute(const GatedPointwise& op, Call& call) {
  const std::int64_t n = op.rows * op.cols;
  if (op.part == GatePart::product) {
    const T *a = call.in<T>(0), *x = call.in<T>(1);
    return with_gate(op.kind, [=, &call, y = call.out<T>(0)](auto f) {
      each(call, n, [=](std::int64_t i) { y[i] = a[i] * f.other(x[2 * i + 1]); });
    });
  }
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  with_gate(op.kind, [=, &call, part = op.part](auto f) {
    if (part == GatePart::activation) return each(call, n, [=](std::int64_t i) { y[i] = f.value(x[2 * i]); });
    each(call, n, [=](std::int64_t i) { y[i] = f.value(x[2 * i]) * f.other(x[2 * i + 1]); });
  });
}

// Backward pass of y = a * other(up).
template <class T>
void product_backward(const GatedPointwiseBackward& op, Call& call) {
  const T *dy = call.in<T>(0), *a = call.in<T>(1), *x = call.in<T>(2);
  T *da = call.out<T>(0), *dx = call.out<T>(1);
  with_gate(op.kind, [=, &call, n = op.rows * op.cols](auto f) {
    each(call, n, [=](std::int64_t i) {
      const T up = x[2 * i + 1];
      da[i] = dy[i] * f.other(up);
      dx[2 * i + 1] = dy[i] * a[i] * f.other_derivative(up);
    });
  });
}

// Backward pass of a = act(gate).
template <class T>
void gate_backward(const GatedPointwiseBackward& op, Call& call) {
  const T *da = call.in<T>(0), *x = call.in<T>(1);
  T* dx = call.out<T>(0);
  with_gate(op.kind, [=, &call, n = op.rows * op.cols](auto f) {
    each(call, n, [=](std::int64_t i) { dx[2 * i] = da[i] * f.derivative(x[2 * i]); });
  });
}

template <class T>
void compute(const GatedPointwiseBackward& op, Call& call) {
  if (op.part == GatePart::product) return product_backward<T>(op, call);
  if (op.part == GatePart::activation) return gate_backward<T>(op, call);
  const T *dy = call.in<T>(0), *x = call.in<T>(1);
  T* dx = call.out<T>(0);
  with_gate(op.kind, [=, &call, n = op.rows * op.cols](auto f) {
    each(call, n, [=](std::int64_t i) {
      const T gate = x[2 * i], up = x[2 * i + 1];
      dx[2 * i] = dy[i] * f.other(up) * f.derivative(gate);
      dx[2 * i + 1] = dy[i] * f.value(gate) * f.other_derivative(up);
    });
  });
}

TANDEM_KERNEL(GatedPointwise);
TANDEM_KERNEL(GatedPointwiseBackward);

}  // namespace tandem::exec::cpu
