#pragma once
// Gradients of norms.

#include "exec/device/columns.hpp"
#include "exec/device/norms.hpp"

namespace tandem::exec::device {

/// dx of a norm = rstd (g - mean(g) - xhat mean(g xhat)) (+
/// residual) with g = dy gamma. For RMS norms there is no mean(g).
struct NormGradRows {
  Typed dy, x, stats, gamma, residual, dx;
  std::int64_t rows, cols;
  bool rms;

  RowPlan plan(Form form) const {
    const int lanes = lanes_of(form);
    return row_plan(cols, form, are_aligned(lanes, dy, x, gamma) && are_aligned(lanes, residual, dx) && is_aligned(stats, 2));
  }
  /// Processes one row; calls also(slot, dy, xhat) for each piece.
  template <class Variant, class Team, class Also>
  TANDEM_HD void kept(const Team& team, std::int64_t row, Also also) const {
    using S = typename Variant::Storage;
    using A = typename S::Number;
    using In = Access<S>;
    constexpr int n = kLanes<S>, K = Variant::kPieces;
    const std::int64_t at = row * cols, pieces = cols / n;
    const Wide<A, 2> noted = load_wide<A, 2>(stats, 2 * row);
    const A count = static_cast<A>(cols), mean = noted[0], rstd = noted[1];
    typename Team::template Held<typename In::template Raw<n>, K> d, v;
    team.template each<K>(pieces, [&](Slot s) {
      d[s] = In::template load<n>(dy, at + s.i * n);
      v[s] = In::template load<n>(x, at + s.i * n);
    });
    const auto normed = [&](Slot s) {
      Wide<A, n> xhat = In::template numbers<n>(v[s]);
      TANDEM_UNROLL
      for (int l = 0; l < n; ++l) xhat[l] = (xhat[l] - mean) * rstd;
      return xhat;
    };
    const Wide<A, 2> sums = team.template sum<Wide<A, 2>, K>(pieces, Wide<A, 2>{A{0}, A{0}}, [&](Slot s) {
      const Wide<A, n> xhat = normed(s), up = In::template numbers<n>(d[s]), scale = load_wide<A, n>(gamma, s.i * n);
      Wide<A, 2> mine{A{0}, A{0}};
      TANDEM_UNROLL
      for (int l = 0; l < n; ++l) {
        mine[0] += up[l] * scale[l];
        mine[1] += up[l] * scale[l] * xhat[l];
      }
      return mine;
    });
    const A mean_g = rms ? A{0} : sums[0] / count, mean_gx = sums[1] / count;
    team.template each<K>(pieces, [&](Slot s) {
      const Wide<A, n> xhat = normed(s), up = In::template numbers<n>(d[s]), scale = load_wide<A, n>(gamma, s.i * n);
      Wide<A, n> result = residual.here() ? get<S, n>(residual, at + s.i * n) : zeros<A, n>();
      TANDEM_UNROLL
      for (int l = 0; l < n; ++l) result[l] += rstd * (up[l] * scale[l] - mean_g - xhat[l] * mean_gx);
      also(s, up, xhat);
      put<S>(dx, at + s.i * n, result);
    });
  }
  /// One row per block, for rows too long for registers.
  template <class S, class Block>
  TANDEM_HD void read_again(Block& block) const {
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

struct NormInputGradKernel {
  Form form;
  NormGradRows of;

  template <class Variant>
  static constexpr int kResident = kKept<Variant> <= 16   ? 3
                                   : kKept<Variant> <= 32 ? 2
                                                          : 1;
  RowPlan plan() const { return of.plan(form); }
  Grid grid() const { return {parts(of.rows, plan().rows_of_block())}; }
  template <class Variant, class Block>
  TANDEM_HD void run(Block& block) const {
    if constexpr (Variant::kPieces == 0) {
      of.template read_again<typename Variant::Storage>(block);
    } else {
      constexpr int kRows = kThreads / Variant::kThreadsOfRow;
      const std::int64_t first = block.index() * kRows, end = first + kRows < of.rows ? first + kRows : of.rows;
      block.template teams<Variant::kThreadsOfRow>(first, end, [&](const auto& team, std::int64_t row) {
        of.template kept<Variant>(team, row, [](Slot, const auto&, const auto&) {});
      });
    }
  }
};

/// Computes dx and, in the same pass, each block's partial sums of dy xhat and dy: [slab, 2, cols], for ColumnFoldKernel.
struct NormGradKernel {
  Form form;
  NormGradRows of;
  Typed partials;

  template <class Variant>
  static constexpr int kResident = kKept<Variant> <= 8                             ? 3
                                   : kKept<Variant> <= 16 || Variant::kPieces <= 3 ? 2
                                                                                   : 1;
  static constexpr std::int64_t kMostSlabs = 264;  ///< blocks that are resident at once on 132 multiprocessors

  /// True if rows are short enough for threads to keep their operands and sums in registers.
  static bool can(const RowPlan& plan) { return plan.keeps() && plan.kept <= 32; }
  static constexpr std::int64_t slabs(std::int64_t rows, const RowPlan& plan) {
    const std::int64_t most = plan.team == kThreads && plan.kept == 32 ? kMostSlabs / 2 : kMostSlabs,
                       blocks = parts(rows, plan.rows_of_block());
    return blocks < most ? blocks : most;
  }
  RowPlan plan() const { return of.plan(form); }
  Grid grid() const {
    const std::int64_t teams = plan().rows_of_block();
    return {slabs(of.rows, plan()), teams == 1 ? 0 : static_cast<std::size_t>(teams * 2 * of.cols) * sizeof(float)};
  }
  template <class Variant, class Block>
  TANDEM_HD void run(Block& block) const {
    if constexpr (Variant::kPieces * kLanes<typename Variant::Storage> <= 32 && Variant::kPieces > 0) summed<Variant>(block);
  }

 private:
  template <class Held>
  struct Sums {
    Held scaled, plain;
  };
  template <class Variant, class Block>
  TANDEM_HD void summed(Block& block) const {
    using S = typename Variant::Storage;
    constexpr int n = kLanes<S>, K = Variant::kPieces, kTeam = Variant::kThreadsOfRow, kTeams = kThreads / kTeam;
    using State = Sums<typename Block::template Team<kTeam>::template Held<Wide<float, n>, K>>;
    const std::int64_t all = slabs(of.rows, {kTeam, K * n}), cols = of.cols, slab = block.index();
    float* partial = as<float>(partials) + slab * 2 * cols;
    float* apart = kTeams == 1 ? partial : reinterpret_cast<float*>(block.shared());
    const auto add = [&](const auto& team, State& state, std::int64_t row) {
      of.template kept<Variant>(team, row, [&](Slot s, const Wide<float, n>& up, const Wide<float, n>& xhat) {
        TANDEM_UNROLL
        for (int l = 0; l < n; ++l) {
          state.scaled[s][l] += up[l] * xhat[l];
          state.plain[s][l] += up[l];
        }
      });
    };
    const auto done = [&](const auto& team, State& state, int number) {
      const Typed mine{reinterpret_cast<std::byte*>(apart + number * 2 * cols), DType::fp32};
      team.template each<K>(cols / n, [&](Slot s) {
        store_cells(mine, s.i * n, cells_of<float>(state.scaled[s]));
        store_cells(mine, cols + s.i * n, cells_of<float>(state.plain[s]));
      });
    };
    block.template teams<kTeam, State>(of.rows * slab / all, of.rows * (slab + 1) / all, add, done);
    if constexpr (kTeams > 1)
      block.each(2 * cols, [&](std::int64_t c) {
        float sum = apart[c];
        TANDEM_UNROLL
        for (int t = 1; t < kTeams; ++t) sum += apart[t * 2 * cols + c];
        partial[c] = sum;
      });
  }
};

/// Scratch bytes for partial sums of a norm's parameter gradients: enough for sums by slabs of rows and for sums by columns.
constexpr std::int64_t norm_scratch(std::int64_t rows, std::int64_t cols) {
  const std::int64_t slabs = rows < NormGradKernel::kMostSlabs ? rows : NormGradKernel::kMostSlabs;
  const std::int64_t together = slabs * 2 * cols * static_cast<std::int64_t>(sizeof(float)), apart = column_scratch(rows, cols, 2);
  return together > apart ? together : apart;
}

}  // namespace tandem::exec::device
