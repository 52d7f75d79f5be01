#pragma once
// Norms of rows, their gradients, sums of columns and of rows.

#include <cmath>

#include "exec/device/chunk.hpp"
#include "exec/device/typed.hpp"
#include "models/ops/layer.hpp"

namespace tandem::exec::device {

/// A block for each row.
struct NormKernel {
  Form form;
  Typed x, gamma, beta, y, stats;
  std::int64_t rows, cols;
  double epsilon;
  bool rms;

  Grid grid() const { return {rows}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t row = block.index(), at = row * cols;
    const A count = static_cast<A>(cols);
    const A mean = rms ? A{0} : block.template sum<A>(cols, [&](std::int64_t c) { return S::get(x, at + c); }) / count;
    const A variance = block.template sum<A>(cols, [&](std::int64_t c) {
      const A d = S::get(x, at + c) - mean;
      return d * d;
    }) / count;
    const A rstd = A{1} / std::sqrt(variance + static_cast<A>(epsilon));
    block.each(cols, [&](std::int64_t c) {
      const A scaled = (S::get(x, at + c) - mean) * rstd * load<A>(gamma, c);
      S::put(y, at + c, rms ? scaled : scaled + load<A>(beta, c));
      if (c != 0) return;
      store(stats, 2 * row, mean);
      store(stats, 2 * row + 1, rstd);
    });
  }
};

/// dx of a norm, a block for each row. With g = dy gamma: rstd (g - mean(g) - xhat mean(g xhat)) (+ residual); without mean(g) where
/// no mean was taken off.
struct NormInputGradKernel {
  Form form;
  Typed dy, x, stats, gamma, residual, dx;
  std::int64_t rows, cols;
  bool rms;

  Grid grid() const { return {rows}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t row = block.index(), at = row * cols;
    const A count = static_cast<A>(cols), mean = load<A>(stats, 2 * row), rstd = load<A>(stats, 2 * row + 1);
    const auto g = [&](std::int64_t c) { return S::get(dy, at + c) * load<A>(gamma, c); };
    const auto xhat = [&](std::int64_t c) { return (S::get(x, at + c) - mean) * rstd; };
    const A mean_g = rms ? A{0} : block.template sum<A>(cols, g) / count;
    const A mean_gx = block.template sum<A>(cols, [&](std::int64_t c) { return g(c) * xhat(c); }) / count;
    block.each(cols, [&](std::int64_t c) {
      const A d = rstd * (g(c) - mean_g - xhat(c) * mean_gx);
      S::put(dx, at + c, residual.here() ? d + S::get(residual, at + c) : d);
    });
  }
};

inline constexpr std::int64_t kColumns = 32, kRowsBeside = 32;  ///< of a block that sums columns: columns, and rows at a time

/// Sums over rows in a fixed order, a block for each 32 columns: of x, and with `stats` (mean, 1/std) of dy xhat, too.
struct ColumnSumsKernel {
  Form form;
  Typed dy, x, stats, dgamma, sums;  ///< dgamma = sum dy xhat, sums = sum dy; each only where it is there
  std::int64_t rows, cols;

  Grid grid() const {
    const std::size_t number = form == Form::doubles ? sizeof(double) : sizeof(float);
    return {(cols + kColumns - 1) / kColumns, 2 * kColumns * kRowsBeside * number};
  }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    constexpr std::int64_t tile = kColumns * kRowsBeside;
    A* plain = reinterpret_cast<A*>(block.shared());
    A* scaled = plain + tile;
    const std::int64_t first = block.index() * kColumns;
    block.each(tile, [&](std::int64_t i) {
      const std::int64_t c = first + i % kColumns;
      A sum = A{0}, sum_scaled = A{0};
      for (std::int64_t r = i / kColumns; c < cols && r < rows; r += kRowsBeside) {
        const A d = S::get(dy, r * cols + c);
        sum += d;
        if (dgamma.here()) sum_scaled += d * ((S::get(x, r * cols + c) - load<A>(stats, 2 * r)) * load<A>(stats, 2 * r + 1));
      }
      plain[i] = sum;
      scaled[i] = sum_scaled;
    });
    block.each(kColumns, [&](std::int64_t i) {
      if (first + i >= cols) return;
      A sum = A{0}, sum_scaled = A{0};
      for (std::int64_t r = 0; r < kRowsBeside; ++r) {
        sum += plain[r * kColumns + i];
        sum_scaled += scaled[r * kColumns + i];
      }
      if (sums.here()) store(sums, first + i, sum);
      if (dgamma.here()) store(dgamma, first + i, sum_scaled);
    });
  }
};

struct RowReduceKernel {
  Form form;
  Typed x, y;
  std::int64_t rows, cols;
  RowReduceKind kind;
  double epsilon;

  Grid grid() const { return {rows}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t row = block.index();
    const A sum = block.template sum<A>(cols, [&](std::int64_t c) { return S::get(x, row * cols + c); });
    block.each(1, [&](std::int64_t) {
      store(y, row, kind == RowReduceKind::sum ? sum : A{1} / std::sqrt(sum / static_cast<A>(cols) + static_cast<A>(epsilon)));
    });
  }
};

}  // namespace tandem::exec::device
