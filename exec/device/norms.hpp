#pragma once
// Norms of rows, and sums of rows.

#include <cmath>

#include "exec/device/residual.hpp"
#include "exec/device/rows.hpp"
#include "models/ops/layer.hpp"

namespace tandem::exec::device {

template <class A, int N>
TANDEM_HD inline A total(const Wide<A, N>& numbers) {
  A sum = numbers[0];
  TANDEM_UNROLL
  for (int l = 1; l < N; ++l) sum += numbers[l];
  return sum;
}

/// A norm; one warp or block per row. With `add`, dropout(x + bias) + residual is first stored in x, and the norm reads the stored
/// values.
struct NormKernel {
  Form form;
  Typed x, gamma, beta, y, stats;
  std::int64_t rows, cols;
  double epsilon;
  bool rms;
  DropoutAdd add = {};

  template <class Variant>
  static constexpr int kResident = kKept<Variant> <= 16   ? 4
                                   : kKept<Variant> <= 32 ? 3
                                                          : 1;
  RowPlan plan() const {
    const int lanes = lanes_of(form);
    return row_plan(cols, form, are_aligned(lanes, x, gamma, beta, y) && are_aligned(lanes, add.x, add.bias, add.residual));
  }
  Grid grid() const { return {parts(rows, plan().rows_of_block())}; }
  template <class Variant, class Block>
  TANDEM_HD void run(Block& block) const {
    if constexpr (Variant::kPieces == 0) {
      read_again<typename Variant::Storage>(block);
    } else {
      constexpr int kRows = kThreads / Variant::kThreadsOfRow;
      const std::int64_t first = block.index() * kRows, end = first + kRows < rows ? first + kRows : rows;
      block.template teams<Variant::kThreadsOfRow>(first, end,
                                                   [&](const auto& team, std::int64_t row) { kept<Variant>(team, row); });
    }
  }

 private:
  template <class Variant, class Team>
  TANDEM_HD void kept(const Team& team, std::int64_t row) const {
    using S = typename Variant::Storage;
    using A = typename S::Number;
    using In = Access<S>;
    constexpr int n = kLanes<S>, K = Variant::kPieces;
    const std::int64_t at = row * cols, pieces = cols / n;
    const A count = static_cast<A>(cols);
    typename Team::template Held<typename In::template Raw<n>, K> held;
    team.template each<K>(pieces,
                          [&](Slot s) { held[s] = add.x.here() ? added<S>(row, s.i * n) : In::template load<n>(x, at + s.i * n); });
    const A mean =
        rms ? A{0} : team.template sum<A, K>(pieces, A{0}, [&](Slot s) { return total(In::template numbers<n>(held[s])); }) / count;
    const A squares = team.template sum<A, K>(pieces, A{0}, [&](Slot s) {
      Wide<A, n> v = In::template numbers<n>(held[s]);
      TANDEM_UNROLL
      for (int l = 0; l < n; ++l) v[l] = (v[l] - mean) * (v[l] - mean);
      return total(v);
    });
    const A rstd = A{1} / std::sqrt(squares / count + static_cast<A>(epsilon));
    team.template each<K>(pieces, [&](Slot s) {
      Wide<A, n> v = In::template numbers<n>(held[s]);
      const Wide<A, n> scale = load_wide<A, n>(gamma, s.i * n);
      const Wide<A, n> shift = beta.here() ? load_wide<A, n>(beta, s.i * n) : zeros<A, n>();
      TANDEM_UNROLL
      for (int l = 0; l < n; ++l) v[l] = (v[l] - mean) * rstd * scale[l] + shift[l];
      put<S>(y, at + s.i * n, v);
    });
    team.one([&] { note(row, mean, rstd); });
  }
  template <class S>
  TANDEM_HD typename Access<S>::template Raw<kLanes<S>> added(std::int64_t row, std::int64_t col) const {
    constexpr int n = kLanes<S>;
    const auto sum = Access<S>::template raw<n>(x, add.template at<S, n>({row, col}));
    Access<S>::template store<n>(x, row * cols + col, sum);
    return sum;
  }
  template <class S, class Block>
  TANDEM_HD void read_again(Block& block) const {
    using A = typename S::Number;
    const std::int64_t row = block.index(), at = row * cols;
    const A count = static_cast<A>(cols);
    if (add.x.here()) block.each(cols, [&](std::int64_t c) { put<S>(x, at + c, add.template at<S, 1>({row, c})); });
    const A mean = rms ? A{0} : block.template sum<A>(cols, [&](std::int64_t c) { return S::get(x, at + c); }) / count;
    const A squares = block.template sum<A>(cols, [&](std::int64_t c) {
      const A d = S::get(x, at + c) - mean;
      return d * d;
    });
    const A rstd = A{1} / std::sqrt(squares / count + static_cast<A>(epsilon));
    block.each(cols, [&](std::int64_t c) {
      const A scaled = (S::get(x, at + c) - mean) * rstd * load<A>(gamma, c);
      S::put(y, at + c, beta.here() ? scaled + load<A>(beta, c) : scaled);
      if (c == 0) note(row, mean, rstd);
    });
  }
  template <class A>
  TANDEM_HD void note(std::int64_t row, A mean, A rstd) const {
    store(stats, 2 * row, mean);
    store(stats, 2 * row + 1, rstd);
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
