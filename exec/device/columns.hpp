#pragma once
// Column sums in a fixed order, in two stages: each block sums its rows of some columns; then the blocks' sums are added.

#include "exec/device/rows.hpp"

namespace tandem::exec::device {

inline constexpr std::int64_t kLane = 32;  ///< threads of a warp

/// Partition of a matrix's rows into slabs. It is the same on every device, because it determines the order of the sums.
struct Slabs {
  std::int64_t rows, count;

  TANDEM_HD std::int64_t first(std::int64_t slab) const { return rows * slab / count; }
};
constexpr Slabs column_slabs(std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kBlocks = 1056, kLeastRows = 32, kStrip = 256;  // kBlocks: eight per multiprocessor of an H100
  const std::int64_t wanted = kBlocks / parts(cols, kStrip), most = parts(rows, kLeastRows);
  return {rows, wanted < 1 || most < 1 ? 1 : wanted < most ? wanted : most};
}
/// Bytes of scratch memory for the partial sums of `sets` sums per column.
constexpr std::int64_t column_scratch(std::int64_t rows, std::int64_t cols, std::int64_t sets) {
  return column_slabs(rows, cols).count * sets * cols * static_cast<std::int64_t>(sizeof(double));
}

/// First stage: one warp per row of a strip of columns. Writes partials in fp32 (fp64 if dy is). With `stats` (mean, 1/std): [slab,
/// 2, cols], the sums of dy xhat and of dy. Without: [slab, cols], the sum of dy.
struct ColumnSumsKernel {
  Form form;
  Typed dy, x, stats, partials;
  std::int64_t rows, cols;

  template <class Variant>
  static constexpr int kResident = 3;
  Grid grid() const {
    const std::int64_t width = may() ? lanes_of(form) : 1;
    const std::size_t number = form == Form::doubles ? sizeof(double) : sizeof(float);
    return {parts(cols, kLane * width) * column_slabs(rows, cols).count, static_cast<std::size_t>(2 * kThreads * width) * number};
  }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    if (may())
      stats.here() ? strip<S, kLanes<S>, true>(block) : strip<S, kLanes<S>, false>(block);
    else
      stats.here() ? strip<S, 1, true>(block) : strip<S, 1, false>(block);
  }

 private:
  static constexpr int kTogether = 4;  ///< rows read before the first one is added

  TANDEM_HD bool may() const { return are_aligned(lanes_of(form), dy, x) && is_aligned(stats, 2) && cols % lanes_of(form) == 0; }
  template <class Held>
  struct Sums {
    Held plain, scaled;
  };
  template <class S, int N, bool kScaled, class Block>
  TANDEM_HD void strip(Block& block) const {
    using A = typename S::Number;
    using State = Sums<typename Block::template Team<kLane>::template Held<Wide<A, N>, 1>>;
    const Slabs slabs = column_slabs(rows, cols);
    const std::int64_t slab = block.index() % slabs.count, column = block.index() / slabs.count * kLane * N;
    const std::int64_t width = cols - column < kLane * N ? cols - column : kLane * N, first = slabs.first(slab),
                       end = slabs.first(slab + 1);
    A* apart = reinterpret_cast<A*>(block.shared());
    const auto add = [&](const auto& team, State& state, std::int64_t item) {
      team.template each<1>(width / N, [&](Slot s) {
        rows_at<S, N, kScaled>(state, s, {first + item * kTogether, end, column + s.i * N});
      });
    };
    const auto done = [&](const auto& team, State& state, int number) {
      const Typed to{reinterpret_cast<std::byte*>(apart + number * 2 * kLane * N), sizeof(A) == 8 ? DType::fp64 : DType::fp32};
      team.template each<1>(width / N, [&](Slot s) {
        store_cells(to, s.i * N, cells_of<A>(state.scaled[s]));
        store_cells(to, (kLane + s.i) * N, cells_of<A>(state.plain[s]));
      });
    };
    block.template teams<kLane, State>(0, parts(end - first, kTogether), add, done);
    A* partial = as<A>(partials) + slab * (kScaled ? 2 : 1) * cols + column;
    block.each((kScaled ? 2 : 1) * kLane * N, [&](std::int64_t i) {
      const std::int64_t set = i / (kLane * N), c = i % (kLane * N), from = kScaled ? i : kLane * N + c;
      if (c >= width) return;
      A sum = apart[from];
      for (int t = 1; t < kThreads / kLane; ++t) sum += apart[t * 2 * kLane * N + from];
      partial[set * cols + c] = sum;
    });
  }
  struct Rows {
    std::int64_t first, end, column;
  };
  template <class S, int N, bool kScaled, class State>
  TANDEM_HD void rows_at(State& state, Slot s, const Rows& at) const {
    using A = typename S::Number;
    using In = Access<S>;
    typename In::template Raw<N> d[kTogether], v[kTogether];
    TANDEM_UNROLL
    for (int t = 0; t < kTogether; ++t) {
      const std::int64_t row = at.first + t < at.end ? at.first + t : at.end - 1;
      d[t] = In::template load<N>(dy, row * cols + at.column);
      if constexpr (kScaled) v[t] = In::template load<N>(x, row * cols + at.column);
    }
    TANDEM_UNROLL
    for (int t = 0; t < kTogether; ++t) {
      if (at.first + t >= at.end) continue;
      const Wide<A, N> up = In::template numbers<N>(d[t]);
      state.plain[s] = state.plain[s] + up;
      if constexpr (kScaled) {
        const Wide<A, 2> noted = load_wide<A, 2>(stats, 2 * (at.first + t));
        const Wide<A, N> raw = In::template numbers<N>(v[t]);
        TANDEM_UNROLL
        for (int l = 0; l < N; ++l) state.scaled[s][l] += up[l] * ((raw[l] - noted[0]) * noted[1]);
      }
    }
  }
};

/// Second stage: one block per 32 columns. partials: [slabs, sets, cols]. first, second: sums of each set over the slabs.
struct ColumnFoldKernel {
  Form form;
  Typed partials, first, second;  ///< first and second may be missing
  std::int64_t slabs, sets, cols;

  Grid grid() const {
    return {parts(sets * cols, kLane),
            static_cast<std::size_t>(kThreads) * (form == Form::doubles ? sizeof(double) : sizeof(float))};
  }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    constexpr std::int64_t kBeside = kThreads / kLane;
    const std::int64_t all = sets * cols, begin = block.index() * kLane;
    const A* from = as<const A>(partials);
    A* apart = reinterpret_cast<A*>(block.shared());
    block.each(kThreads, [&](std::int64_t i) {
      const std::int64_t c = begin + i % kLane;
      A sum = A{0};
      TANDEM_UNROLL_8
      for (std::int64_t slab = i / kLane; slab < slabs; slab += kBeside) sum += c < all ? from[slab * all + c] : A{0};
      apart[i] = sum;
    });
    block.each(kLane, [&](std::int64_t i) {
      const std::int64_t c = begin + i;
      const Typed& to = c < cols ? first : second;
      if (c >= all || !to.here()) return;
      A sum = apart[i];
      TANDEM_UNROLL
      for (int t = 1; t < kBeside; ++t) sum += apart[t * kLane + i];
      store(to, c % cols, sum);
    });
  }
};

}  // namespace tandem::exec::device
