#pragma once
// Causal convolutions of single columns over few positions, with SiLU, and their gradients.

#include "exec/device/columns.hpp"
#include "exec/device/typed.hpp"
#include "exec/shared/activations.hpp"

namespace tandem::exec::device {

/// Operands of a convolution over the last `taps` positions of each of `cols` columns.
struct ShortConvRows {
  Typed x, weight, bias;
  std::int64_t rows, seq, cols, taps;

  TANDEM_HD std::int64_t elements() const { return rows * cols; }
  /// bias + sum over taps of weight x, at a row.
  template <class S>
  TANDEM_HD typename S::Number sum(std::int64_t row, std::int64_t col) const {
    using A = typename S::Number;
    const std::int64_t missing = taps - 1 - cell_of(row, seq).col;
    A z = bias.here() ? load<A>(bias, col) : A{0};
    for (std::int64_t j = missing > 0 ? missing : 0; j < taps; ++j)
      z += load<A>(weight, col * taps + j) * S::get(x, (row - taps + 1 + j) * cols + col);
    return z;
  }
};

/// y = silu(z). If `dy` exists, `slopes` become dy silu'(z) instead.
struct ShortConvKernel {
  Form form;
  ShortConvRows of;
  Typed dy, y;
  std::byte* slopes;

  Grid grid() const { return chunks(of.elements()); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    each_in_chunk(block, of.elements(), [&](std::int64_t i) {
      const Cell at = cell_of(i, of.cols);
      const A z = of.template sum<S>(at.row, at.col);
      if (dy.here()) reinterpret_cast<A*>(slopes)[i] = S::get(dy, i) * Silu::derivative(z);
      else S::put(y, i, Silu::value(z));
    });
  }
};

/// dx[t] = sum over taps of weight[j] slope[t + taps - 1 - j].
struct ShortConvInputGradKernel {
  Form form;
  ShortConvRows of;
  const std::byte* slopes;
  Typed dx;

  Grid grid() const { return chunks(of.elements()); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    each_in_chunk(block, of.elements(), [&](std::int64_t i) {
      const Cell at = cell_of(i, of.cols);
      const std::int64_t later = of.seq - 1 - cell_of(at.row, of.seq).col;
      A sum = A{0};
      for (std::int64_t back = 0; back < of.taps && back <= later; ++back)
        sum += load<A>(of.weight, at.col * of.taps + of.taps - 1 - back) * reinterpret_cast<const A*>(slopes)[i + back * of.cols];
      S::put(dx, i, sum);
    });
  }
};

/// A slab's partial sums of the gradients of weights, [slab, cols, taps], and bias, [slab, cols]. One block per slab and kThreads
/// columns.
struct ShortConvWeightGradKernel {
  Form form;
  ShortConvRows of;
  const std::byte* slopes;
  std::byte *weights, *biases;

  TANDEM_HD Slabs slabs() const { return column_slabs(of.rows, of.cols); }
  Grid grid() const { return {slabs().count * parts(of.cols, kThreads)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const Slabs all = slabs();
    const std::int64_t slab = block.index() % all.count, begin = block.index() / all.count * kThreads;
    const std::int64_t first = all.first(slab), end = all.first(slab + 1);
    block.each(of.cols - begin < kThreads ? of.cols - begin : kThreads, [&](std::int64_t i) {
      const std::int64_t col = begin + i;
      const A* const d = reinterpret_cast<const A*>(slopes) + col;
      for (std::int64_t j = 0; j < of.taps; ++j) {
        const std::int64_t back = of.taps - 1 - j;
        A sum = A{0};
        for (std::int64_t row = first, position = first % of.seq; row < end; ++row) {
          if (position >= back) sum += d[row * of.cols] * S::get(of.x, (row - back) * of.cols + col);
          position = position + 1 < of.seq ? position + 1 : 0;
        }
        reinterpret_cast<A*>(weights)[(slab * of.cols + col) * of.taps + j] = sum;
      }
      if (!of.bias.here()) return;
      A sum = A{0};
      for (std::int64_t row = first; row < end; ++row) sum += d[row * of.cols];
      reinterpret_cast<A*>(biases)[slab * of.cols + col] = sum;
    });
  }
};

}  // namespace tandem::exec::device
