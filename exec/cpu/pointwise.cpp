// Activation functions and their exact derivatives.
#include "exec/shared/activations.hpp"
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/split.hpp"

namespace tandem::exec::cpu {
namespace {

template <class F>
void with_function(PointwiseKind kind, F body) {
  switch (kind) {
    case PointwiseKind::gelu_tanh: return body(GeluTanh{});
    case PointwiseKind::relu: return body(Relu{});
    case PointwiseKind::squared_relu: return body(SquaredRelu{});
    case PointwiseKind::tanh: return body(Tanh{});
  }
}

}  // namespace

template <class T>
void compute(const Pointwise& op, Call& call) {
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  with_function(op.kind, [&](auto f) {
    if (op.bias_cols == 0) return each(call, op.elements, [=](std::int64_t i) { y[i] = f.value(x[i]); });
    const T* bias = call.in<T>(1);
    each_row(call, op.elements / op.bias_cols, op.bias_cols, [=, cols = op.bias_cols](std::int64_t r) {
      each(cols, [=, at = r * cols](std::int64_t c) { y[at + c] = f.value(x[at + c] + bias[c]); });
    });
  });
}

template <class T>
void compute(const PointwiseBackward& op, Call& call) {
  const T *dy = call.in<T>(0), *x = call.in<T>(1);
  T* dx = call.out<T>(0);
  with_function(op.kind, [&](auto f) {
    if (op.bias_cols == 0) return each(call, op.elements, [=](std::int64_t i) { dx[i] = dy[i] * f.derivative(x[i]); });
    const T* bias = call.in<T>(2);
    each_row(call, op.elements / op.bias_cols, op.bias_cols, [=, cols = op.bias_cols](std::int64_t r) {
      each(cols, [=, at = r * cols](std::int64_t c) { dx[at + c] = dy[at + c] * f.derivative(x[at + c] + bias[c]); });
    });
  });
}

TANDEM_KERNEL(Pointwise);
TANDEM_KERNEL(PointwiseBackward);

}  // namespace tandem::exec::cpu
