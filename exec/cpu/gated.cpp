// Gated activations (Shazeer, arXiv 2002.05202) and their exact derivatives.
#include "exec/cpu/activations.hpp"
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/lanes.hpp"

namespace tandem::exec::cpu {
namespace {

template <class F>
void with_gate(GateKind kind, F body) {
  switch (kind) {
    case GateKind::silu: return body(Silu{});
    case GateKind::gelu_tanh: return body(GeluTanh{});
  }
}

}  // namespace

template <class T>
void compute(const GatedPointwise& op, Call& call) {
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  with_gate(op.kind, [=, n = op.rows * op.cols](auto f) {
    each(n, [=](std::int64_t i) { y[i] = f.value(x[2 * i]) * x[2 * i + 1]; });
  });
}

template <class T>
void compute(const GatedPointwiseBackward& op, Call& call) {
  const T *dy = call.in<T>(0), *x = call.in<T>(1);
  T* dx = call.out<T>(0);
  with_gate(op.kind, [=, n = op.rows * op.cols](auto f) {
    each(n, [=](std::int64_t i) {
      const T gate = x[2 * i], up = x[2 * i + 1];
      dx[2 * i] = dy[i] * up * f.derivative(gate);
      dx[2 * i + 1] = dy[i] * f.value(gate);
    });
  });
}

TANDEM_KERNEL(GatedPointwise);
TANDEM_KERNEL(GatedPointwiseBackward);

}  // namespace tandem::exec::cpu
