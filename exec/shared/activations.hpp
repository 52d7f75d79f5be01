#pragma once
// Activation functions of one element, with their derivatives, as bodies of loops that vectorise.

#include <cmath>

#include "exec/shared/vector_math.hpp"

namespace tandem::exec {

// GELU's tanh form (Hendrycks and Gimpel, arXiv 1606.08415, section 2) by 1/2 (1 + tanh u) = 1/(1 + exp(-2u)), which
// does not cancel where tanh is near -1.  u = sqrt(2/pi) (x + 0.044715 x^3).
struct GeluTanh {
  template <class T>
  TANDEM_HD static T twice_u(T x) {
    return slope<T> * x * (T{1} + cubic<T> * x * x);
  }
  template <class T>
  TANDEM_HD static T sigmoid(T x) {
    return reciprocal(T{1} + exp_short(-twice_u(x)));
  }

  template <class T>
  TANDEM_HD static T value(T x) {
    return x * sigmoid(x);
  }
  template <class T>
  TANDEM_HD static T derivative(T x) {
    const T s = sigmoid(x);
    return s + x * s * (T{1} - s) * slope<T> * (T{1} + T{3} * cubic<T> * x * x);
  }

 private:
  template <class T>
  static constexpr T slope = static_cast<T>(1.5957691216057307117597842397375);  // 2 sqrt(2/pi)
  template <class T>
  static constexpr T cubic = static_cast<T>(0.044715);
};

// x sigmoid(x), also called swish (arXiv 1710.05941).
struct Silu {
  template <class T>
  TANDEM_HD static T sigmoid(T x) {
    return reciprocal(T{1} + exp_short(-x));
  }
  template <class T>
  TANDEM_HD static T value(T x) {
    return x * sigmoid(x);
  }
  template <class T>
  TANDEM_HD static T derivative(T x) {
    const T s = sigmoid(x);
    return s + x * s * (T{1} - s);
  }
};

// y = act(gate) * other(up): value() is the gate's factor, other() the other one, both with derivatives.
template <class Activation>
struct Gate : Activation {
  template <class T>
  TANDEM_HD static T other(T up) {
    return up;
  }
  template <class T>
  TANDEM_HD static T other_derivative(T) {
    return T{1};
  }
};

// value: g sigmoid(1.702 g), g = min(gate, 7); other: clamp(up, -7, 7) + 1 (openai/gpt-oss: gpt_oss/torch/model.py, swiglu).
struct ClampedSilu {
  template <class T>
  TANDEM_HD static T value(T x) {
    const T g = x < limit<T> ? x : limit<T>;
    return g * reciprocal(T{1} + exp_short(-slope<T> * g));
  }
  template <class T>
  TANDEM_HD static T derivative(T x) {
    const T g = x < limit<T> ? x : limit<T>, s = reciprocal(T{1} + exp_short(-slope<T> * g));
    return x <= limit<T> ? s + slope<T> * g * s * (T{1} - s) : T{0};
  }
  template <class T>
  TANDEM_HD static T other(T up) {
    const T below = up < limit<T> ? up : limit<T>;
    return (below > -limit<T> ? below : -limit<T>) + T{1};
  }
  template <class T>
  TANDEM_HD static T other_derivative(T up) {
    return up <= limit<T> && up >= -limit<T> ? T{1} : T{0};
  }

 private:
  template <class T>
  static constexpr T limit = static_cast<T>(7);
  template <class T>
  static constexpr T slope = static_cast<T>(1.702);
};

struct Relu {
  template <class T>
  TANDEM_HD static T value(T x) {
    return x < T{0} ? T{0} : x;
  }
  template <class T>
  TANDEM_HD static T derivative(T x) {
    return x > T{0} ? T{1} : T{0};
  }
};

struct SquaredRelu {
  template <class T>
  TANDEM_HD static T value(T x) {
    return x < T{0} ? T{0} : x * x;
  }
  template <class T>
  TANDEM_HD static T derivative(T x) {
    return x < T{0} ? T{0} : T{2} * x;
  }
};

/// ln(1 + e^x).
template <class T>
TANDEM_HD inline T softplus(T x) {
  return (x > T{0} ? x : T{0}) + std::log1p(std::exp(-std::abs(x)));
}

struct Tanh {
  template <class T>
  TANDEM_HD static T value(T x) {
    return std::tanh(x);
  }
  template <class T>
  TANDEM_HD static T derivative(T x) {
    const T y = value(x);
    return T{1} - y * y;
  }
};

}  // namespace tandem::exec
