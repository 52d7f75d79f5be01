#pragma once
// Kernels that compute element by element.

#include "exec/device/chunk.hpp"
#include "exec/device/typed.hpp"
#include "exec/shared/activations.hpp"
#include "models/ops/layer.hpp"

namespace tandem::exec::device {

/// What a function of PointwiseKind gives for one element, or its derivative.
template <class A>
TANDEM_HD inline A activated(PointwiseKind kind, A x, bool derivative) {
  switch (kind) {
    case PointwiseKind::gelu_tanh: return derivative ? GeluTanh::derivative(x) : GeluTanh::value(x);
    case PointwiseKind::relu: return derivative ? Relu::derivative(x) : Relu::value(x);
    case PointwiseKind::squared_relu: return derivative ? SquaredRelu::derivative(x) : SquaredRelu::value(x);
    case PointwiseKind::tanh: break;
  }
  return derivative ? Tanh::derivative(x) : Tanh::value(x);
}

template <class A>
TANDEM_HD inline A gated(GateKind kind, A x, bool derivative) {
  if (kind == GateKind::silu) return derivative ? Silu::derivative(x) : Silu::value(x);
  return derivative ? GeluTanh::derivative(x) : GeluTanh::value(x);
}

/// Pointwise, and PointwiseBackward where there is a dy: then y is dx.
struct PointwiseKernel {
  Form form;
  Typed x, bias, dy, y;
  std::int64_t elements, bias_cols;
  PointwiseKind kind;

  Grid grid() const { return chunks(elements); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    each_in_chunk(block, elements, [&](std::int64_t i) {
      const A at = bias_cols == 0 ? S::get(x, i) : S::get(x, i) + load<A>(bias, i % bias_cols);
      S::put(y, i, dy.here() ? S::get(dy, i) * activated(kind, at, true) : activated(kind, at, false));
    });
  }
};

/// GatedPointwise. `a`: of the product alone.
struct GatedKernel {
  Form form;
  Typed x, a, y;
  std::int64_t elements;
  GateKind kind;
  GatePart part;

  Grid grid() const { return chunks(elements); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    each_in_chunk(block, elements, [&](std::int64_t i) {
      const A gate = part == GatePart::product ? S::get(a, i) : gated(kind, S::get(x, 2 * i), false);
      S::put(y, i, part == GatePart::activation ? gate : gate * S::get(x, 2 * i + 1));
    });
  }
};

/// GatedPointwiseBackward. `dy`: of the activation's part da; `da`: what the product's part gives beside dx.
struct GatedBackwardKernel {
  Form form;
  Typed dy, x, a, da, dx;
  std::int64_t elements;
  GateKind kind;
  GatePart part;

  Grid grid() const { return chunks(elements); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    each_in_chunk(block, elements, [&](std::int64_t i) {
      const A up_stream = S::get(dy, i), gate = S::get(x, 2 * i), up = S::get(x, 2 * i + 1);
      if (part == GatePart::product) {
        const A active = S::get(a, i);
        S::put(da, i, up_stream * up);
        S::put(dx, 2 * i + 1, up_stream * active);
      } else if (part == GatePart::activation) {
        S::put(dx, 2 * i, up_stream * gated(kind, gate, true));
      } else {
        S::put(dx, 2 * i, up_stream * up * gated(kind, gate, true));
        S::put(dx, 2 * i + 1, up_stream * gated(kind, gate, false));
      }
    });
  }
};

struct ElementwiseKernel {
  Form form;
  Typed a, b, y;
  std::int64_t rows, cols;
  ElementwiseKind kind;
  Spread other;
  double factor;

  Grid grid() const { return chunks(rows * cols); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    each_in_chunk(block, rows * cols, [&](std::int64_t i) {
      const A x = S::get(a, i);
      A second = A{1};
      if (other == Spread::full) second = S::get(b, i);
      if (other == Spread::row) second = load<A>(b, i / cols);
      if (other == Spread::column) second = load<A>(b, i % cols);
      A result = x * second;
      if (kind == ElementwiseKind::add) result = x + second;
      if (kind == ElementwiseKind::subtract) result = x - second;
      if (kind == ElementwiseKind::square) result = x * x;
      S::put(y, i, static_cast<A>(factor) * result);
    });
  }
};

/// y[i] += x[i], or = x[i]; each operand in its own type. `rows` of `cols` where those of y lie `stride` apart, behind each other in x.
struct AddKernel {
  Form form;
  Typed x, y;
  std::int64_t elements, cols, stride;
  bool overwrite;

  Grid grid() const { return chunks(elements); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    each_in_chunk(block, elements, [&](std::int64_t i) {
      const std::int64_t to = i / cols * stride + i % cols;
      S::put(y, to, overwrite ? S::get(x, i) : S::get(y, to) + S::get(x, i));
    });
  }
};

/// y[r, c] += bias[c]
struct BiasKernel {
  Form form;
  Typed bias, y;
  std::int64_t rows, cols;

  Grid grid() const { return chunks(rows * cols); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    each_in_chunk(block, rows * cols, [&](std::int64_t i) { S::put(y, i, S::get(y, i) + load<A>(bias, i % cols)); });
  }
};

}  // namespace tandem::exec::device
