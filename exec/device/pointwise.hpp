#pragma once
// Elementwise kernels.

#include "exec/device/chunk.hpp"
#include "exec/device/typed.hpp"
#include "exec/shared/activations.hpp"
#include "models/ops/layer.hpp"

namespace tandem::exec::device {

/// Calls body(f), where f is the object of exec/shared/activations that computes `kind`.
template <class F>
TANDEM_HD inline void with_activation(PointwiseKind kind, F body) {
  switch (kind) {
    case PointwiseKind::gelu_tanh: return body(GeluTanh{});
    case PointwiseKind::relu: return body(Relu{});
    case PointwiseKind::squared_relu: return body(SquaredRelu{});
    case PointwiseKind::tanh: return body(Tanh{});
  }
}
template <class F>
TANDEM_HD inline void with_activation(GateKind kind, F body) {
  if (kind == GateKind::silu) return body(Gate<Silu>{});
  if (kind == GateKind::clamped_silu) return body(ClampedSilu{});
  return body(Gate<GeluTanh>{});
}

/// Pointwise; with dy PointwiseBackward, where y is dx.
struct PointwiseKernel {
  Form form;
  Typed x, bias, dy, y;
  std::int64_t elements, bias_cols;
  PointwiseKind kind;

  Grid grid() const { return chunks(elements); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const bool may = are_aligned(kLanes<S>, x, bias, dy, y) && bias_cols % kLanes<S> == 0;
    with_activation(kind, [&](auto f) {
      using Function = decltype(f);
      each_wide<kLanes<S>>(block, elements, may, [&](auto lanes, std::int64_t i) {
        constexpr int n = decltype(lanes)::n;
        Wide<A, n> at = get<S, n>(x, i);
        if (bias_cols != 0) at = at + load_wide<A, n>(bias, cell_of(i, bias_cols).col);
        Wide<A, n> d = dy.here() ? get<S, n>(dy, i) : zeros<A, n>();
        TANDEM_UNROLL
        for (int l = 0; l < n; ++l) d[l] = dy.here() ? d[l] * Function::derivative(at[l]) : Function::value(at[l]);
        put<S>(y, i, d);
      });
    });
  }
};

/// Elements per access of a gated activation: half of 16 bytes' worth, because gate and value are adjacent in memory.
template <class S>
inline constexpr int kGatedLanes = kLanes<S> / 2;

/// GatedPointwise. `a`: output of the activation, for the pass that only multiplies.
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
    const bool may = are_aligned(kLanes<S>, x) && are_aligned(kGatedLanes<S>, a, y);
    with_activation(kind, [&](auto f) {
      using Function = decltype(f);
      each_wide<kGatedLanes<S>>(block, elements, may, [&](auto lanes, std::int64_t i) {
        constexpr int n = decltype(lanes)::n;
        const Wide<A, 2 * n> both = pair<S, n>(i);
        Wide<A, n> gate = part == GatePart::product ? get<S, n>(a, i) : zeros<A, n>();
        TANDEM_UNROLL
        for (int l = 0; l < n; ++l) {
          if (part != GatePart::product) gate[l] = Function::value(both[2 * l]);
          if (part != GatePart::activation) gate[l] *= Function::other(both[2 * l + 1]);
        }
        put<S>(y, i, gate);
      });
    });
  }

 private:
  template <class S, int n>
  TANDEM_HD Wide<typename S::Number, 2 * n> pair(std::int64_t i) const {
    if constexpr (n > 1)
      return get<S, 2 * n>(x, 2 * i);
    else
      return {S::get(x, 2 * i), S::get(x, 2 * i + 1)};
  }
};

/// GatedPointwiseBackward. In the activation's pass `dy` is da; `da` is the second output of the product's pass.
struct GatedBackwardKernel {
  Form form;
  Typed dy, x, a, da, dx;
  std::int64_t elements;
  GateKind kind;
  GatePart part;

  Grid grid() const { return chunks(elements); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    const bool may = part == GatePart::whole && are_aligned(kLanes<S>, x, dx) && are_aligned(kGatedLanes<S>, dy);
    with_activation(kind, [&](auto f) {
      each_wide<kGatedLanes<S>>(block, elements, may, [&](auto lanes, std::int64_t i) {
        if constexpr (decltype(lanes)::n > 1)
          whole<S, decltype(lanes)::n>(f, i);
        else
          single<S>(f, i);
      });
    });
  }

 private:
  template <class S, int n, class Function>
  TANDEM_HD void whole(Function, std::int64_t i) const {
    using A = typename S::Number;
    const Wide<A, n> d = get<S, n>(dy, i);
    Wide<A, 2 * n> both = get<S, 2 * n>(x, 2 * i);
    TANDEM_UNROLL
    for (int l = 0; l < n; ++l) {
      const A gate = both[2 * l], up = both[2 * l + 1];
      both[2 * l] = d[l] * Function::other(up) * Function::derivative(gate);
      both[2 * l + 1] = d[l] * Function::value(gate) * Function::other_derivative(up);
    }
    put<S>(dx, 2 * i, both);
  }
  template <class S, class Function>
  TANDEM_HD void single(Function, std::int64_t i) const {
    using A = typename S::Number;
    const A up_stream = S::get(dy, i), gate = S::get(x, 2 * i), up = S::get(x, 2 * i + 1);
    if (part == GatePart::product) {
      const A active = S::get(a, i);
      S::put(da, i, up_stream * Function::other(up));
      S::put(dx, 2 * i + 1, up_stream * active * Function::other_derivative(up));
    } else if (part == GatePart::activation) {
      S::put(dx, 2 * i, up_stream * Function::derivative(gate));
    } else {
      S::put(dx, 2 * i, up_stream * Function::other(up) * Function::derivative(gate));
      S::put(dx, 2 * i + 1, up_stream * Function::value(gate) * Function::other_derivative(up));
    }
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
    const bool whole = other == Spread::full || other == Spread::none;
    const bool may =
        are_aligned(kLanes<S>, a, y) && (whole || cols % kLanes<S> == 0) && (other == Spread::row || are_aligned(kLanes<S>, b));
    each_wide<kLanes<S>>(block, rows * cols, may, [&](auto lanes, std::int64_t i) {
      constexpr int n = decltype(lanes)::n;
      const Wide<A, n> x = get<S, n>(a, i), second = others<S, n>(i);
      Wide<A, n> result;
      TANDEM_UNROLL
      for (int l = 0; l < n; ++l) result[l] = static_cast<A>(factor) * of(x[l], second[l]);
      put<S>(y, i, result);
    });
  }

 private:
  template <class S, int n>
  TANDEM_HD Wide<typename S::Number, n> others(std::int64_t i) const {
    using A = typename S::Number;
    if (other == Spread::full) return get<S, n>(b, i);
    if (other == Spread::column) return load_wide<A, n>(b, cell_of(i, cols).col);
    const A one = other == Spread::row ? load<A>(b, cell_of(i, cols).row) : A{1};
    Wide<A, n> all;
    TANDEM_UNROLL
    for (int l = 0; l < n; ++l) all[l] = one;
    return all;
  }
  template <class A>
  TANDEM_HD A of(A x, A second) const {
    switch (kind) {
      case ElementwiseKind::add: return x + second;
      case ElementwiseKind::subtract: return x - second;
      case ElementwiseKind::square: return x * x;
      case ElementwiseKind::multiply: break;
    }
    return x * second;
  }
};

/// y[i] += x[i], or y[i] = x[i] if `overwrite`; each operand has its own type. y may be rows of `cols` elements, `stride` apart; x
/// is contiguous.
struct AddKernel {
  Form form;
  Typed x, y;
  std::int64_t elements, cols, stride;
  bool overwrite;

  Grid grid() const { return chunks(elements); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    const bool may = are_aligned(kLanes<S>, x, y) && (cols == elements || (cols % kLanes<S> == 0 && stride % kLanes<S> == 0));
    each_wide<kLanes<S>>(block, elements, may, [&](auto lanes, std::int64_t i) {
      constexpr int n = decltype(lanes)::n;
      const Cell at = cols == elements ? Cell{0, i} : cell_of(i, cols);
      const std::int64_t to = at.row * stride + at.col;
      const auto added = get<S, n>(x, i);
      put<S>(y, to, overwrite ? added : get<S, n>(y, to) + added);
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
    const bool may = are_aligned(kLanes<S>, bias, y) && cols % kLanes<S> == 0;
    each_wide<kLanes<S>>(block, rows * cols, may, [&](auto lanes, std::int64_t i) {
      constexpr int n = decltype(lanes)::n;
      put<S>(y, i, get<S, n>(y, i) + load_wide<A, n>(bias, cell_of(i, cols).col));
    });
  }
};

}  // namespace tandem::exec::device
