// Activation functions and their exact derivatives.
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/lanes.hpp"
#include "exec/cpu/vector_math.hpp"

namespace tandem::exec::cpu {
namespace {

// GELU's tanh form (Hendrycks and Gimpel, arXiv 1606.08415, section 2) by 1/2 (1 + tanh u) = 1/(1 + exp(-2u)), which
// does not cancel where tanh is near -1.  u = sqrt(2/pi) (x + 0.044715 x^3).
struct GeluTanh {
  template <class T>
  static T twice_u(T x) {
    return slope<T> * x * (T{1} + cubic<T> * x * x);
  }
  template <class T>
  static T sigmoid(T x) {
    return T{1} / (T{1} + exp_saturating(-twice_u(x)));
  }

  template <class T>
  static T value(T x) {
    return x * sigmoid(x);
  }
  template <class T>
  static T derivative(T x) {
    const T s = sigmoid(x);
    return s + x * s * (T{1} - s) * slope<T> * (T{1} + T{3} * cubic<T> * x * x);
  }

 private:
  template <class T>
  static constexpr T slope = static_cast<T>(1.5957691216057307117597842397375);  // 2 sqrt(2/pi)
  template <class T>
  static constexpr T cubic = static_cast<T>(0.044715);
};

struct Relu {
  template <class T>
  static T value(T x) {
    return x < T{0} ? T{0} : x;
  }
  template <class T>
  static T derivative(T x) {
    return x > T{0} ? T{1} : T{0};
  }
};

struct SquaredRelu {
  template <class T>
  static T value(T x) {
    return x < T{0} ? T{0} : x * x;
  }
  template <class T>
  static T derivative(T x) {
    return x < T{0} ? T{0} : T{2} * x;
  }
};

template <class F>
void with_function(PointwiseKind kind, F body) {
  switch (kind) {
    case PointwiseKind::gelu_tanh: return body(GeluTanh{});
    case PointwiseKind::relu: return body(Relu{});
    case PointwiseKind::squared_relu: return body(SquaredRelu{});
  }
}

}  // namespace

template <class T>
void compute(const Pointwise& op, Call& call) {
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  with_function(op.kind, [=, n = op.elements](auto f) { each(n, [=](std::int64_t i) { y[i] = f.value(x[i]); }); });
}

template <class T>
void compute(const PointwiseBackward& op, Call& call) {
  const T *dy = call.in<T>(0), *x = call.in<T>(1);
  T* dx = call.out<T>(0);
  with_function(op.kind,
                [=, n = op.elements](auto f) { each(n, [=](std::int64_t i) { dx[i] = dy[i] * f.derivative(x[i]); }); });
}

TANDEM_KERNEL(Pointwise);
TANDEM_KERNEL(PointwiseBackward);

}  // namespace tandem::exec::cpu
