#pragma once
// Soft caps and sigmoid gates of rows, with gradients.

#include "exec/device/chunk.hpp"
#include "exec/device/typed.hpp"
#include "exec/shared/routing.hpp"
#include "exec/shared/soft_cap.hpp"

namespace tandem::exec::device {

/// y = cap tanh(x / cap). If `written` holds that result, x is its gradient and y becomes the input's gradient.
struct SoftCapKernel {
  Form form;
  Typed x, written, y;
  std::int64_t elements;
  double cap;

  Grid grid() const { return chunks(elements); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const SoftCapOf<A> of{static_cast<A>(cap)};
    each_in_chunk(block, elements, [&](std::int64_t i) {
      const A value = S::get(x, i);
      S::put(y, i, written.here() ? value * of.slope(S::get(written, i)) : of.value(value));
    });
  }
};

/// y = sigmoid(gate) x. One block per row.
struct RowGateKernel {
  Form form;
  Typed x, gate, y;
  std::int64_t rows, cols;

  Grid grid() const { return {rows}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t first = block.index() * cols;
    const A share = sigmoid_score(load<A>(gate, block.index()));
    block.each(cols, [&](std::int64_t c) { S::put(y, first + c, share * S::get(x, first + c)); });
  }
};

/// dx = sigmoid(gate) dy, and the gate's gradient. One block per row.
struct RowGateGradKernel {
  Form form;
  Typed dy, x, gate, dx, dgate;
  std::int64_t rows, cols;

  Grid grid() const { return {rows}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t first = block.index() * cols;
    const A share = sigmoid_score(load<A>(gate, block.index()));
    const A sum = block.template sum<A>(cols, [&](std::int64_t c) { return S::get(dy, first + c) * S::get(x, first + c); });
    block.each(1, [&](std::int64_t) { store(dgate, block.index(), share * (A{1} - share) * sum); });
    block.each(cols, [&](std::int64_t c) { S::put(dx, first + c, share * S::get(dy, first + c)); });
  }
};

}  // namespace tandem::exec::device
