#pragma once
// Dropout with bias and residual, for hidden states and embeddings.

#include "exec/device/chunk.hpp"
#include "exec/device/dropout.hpp"
#include "exec/device/typed.hpp"

namespace tandem::exec::device {

/// dropout(x + bias) + residual of hidden states. Bias and residual may be missing.
struct DropoutAdd {
  Typed x, bias, residual;
  std::int64_t cols;
  Dropout dropout;
  HiddenRows places;

  /// True if `lanes` elements can be loaded at a time.
  TANDEM_HD bool may(int lanes) const { return are_aligned(lanes, x, bias, residual) && cols % lanes == 0; }
  /// N elements of a row.
  template <class S, int N>
  TANDEM_HD Wide<typename S::Number, N> at(const Cell& cell) const {
    using A = typename S::Number;
    const std::int64_t i = cell.row * cols + cell.col;
    Wide<A, N> sum = get<S, N>(x, i);
    if (bias.here()) sum = sum + load_wide<A, N>(bias, cell.col);
    if (dropout.threshold != 0) {
      const Wide<A, N> kept =
          dropout.factors<A, N>(static_cast<std::uint64_t>(places.token(cell.row, *dropout.table) * cols + cell.col));
      TANDEM_UNROLL
      for (int l = 0; l < N; ++l) sum[l] *= kept[l];
    }
    return residual.here() ? sum + get<S, N>(residual, i) : sum;
  }
};

/// y = dropout(x + bias) + residual. The gradient is the same kernel without bias and residual.
struct DropoutKernel {
  Form form;
  DropoutAdd add;
  Typed y;
  std::int64_t rows;

  template <class Variant>
  static constexpr int kResident = 5;
  Grid grid() const { return chunks(rows * add.cols); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    const bool may = add.may(kLanes<S>) && are_aligned(kLanes<S>, y);
    each_wide<kLanes<S>>(block, rows * add.cols, may, [&](auto lanes, std::int64_t i) {
      put<S>(y, i, add.template at<S, decltype(lanes)::n>(cell_of(i, add.cols)));
    });
  }
};

/// y = dropout(x + position[pos]). Without a table y = dropout(x), which is also the gradient.
struct PositionKernel {
  Form form;
  Typed x, positions, y;
  std::int64_t rows, cols;
  Dropout dropout;
  HiddenRows places;

  Grid grid() const { return chunks(rows * cols); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const bool may = are_aligned(kLanes<S>, x, positions, y) && cols % kLanes<S> == 0;
    each_wide<kLanes<S>>(block, rows * cols, may, [&](auto lanes, std::int64_t i) {
      constexpr int n = decltype(lanes)::n;
      const Cell at = cell_of(i, cols);
      Wide<A, n> sum = get<S, n>(x, i);
      if (positions.here()) sum = sum + load_wide<A, n>(positions, places.position(at.row) * cols + at.col);
      if (dropout.threshold != 0) {
        const auto kept = dropout.factors<A, n>(static_cast<std::uint64_t>(places.token(at.row, *dropout.table) * cols + at.col));
        TANDEM_UNROLL
        for (int l = 0; l < n; ++l) sum[l] *= kept[l];
      }
      put<S>(y, i, sum);
    });
  }
};

/// One block per position: the sum of dy over its rows, ascending; 0 if there are none.
struct PositionGradKernel {
  Form form;
  Typed dy, dpositions;
  std::int64_t rows, cols, positions;
  Dropout dropout;
  HiddenRows places;

  Grid grid() const { return {positions}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    const std::int64_t position = block.index(), index = local_index(position);
    if (are_aligned(kLanes<S>, dy, dpositions) && cols % kLanes<S> == 0)
      columns<S, kLanes<S>>(block, position, index);
    else
      columns<S, 1>(block, position, index);
  }

 private:
  template <class S, int N, class Block>
  TANDEM_HD void columns(Block& block, std::int64_t position, std::int64_t index) const {
    using A = typename S::Number;
    const std::int64_t first = index < 0 ? rows : first_with(index), step = places.map.local_seq;
    block.each(cols / N, [&](std::int64_t k) {
      Wide<A, N> sum = zeros<A, N>();
      TANDEM_UNROLL_4
      for (std::int64_t row = first; row < rows; row += step) {
        Wide<A, N> d = get<S, N>(dy, row * cols + k * N);
        if (dropout.threshold != 0) {
          const auto kept = dropout.factors<A, N>(static_cast<std::uint64_t>(places.token(row, *dropout.table) * cols + k * N));
          TANDEM_UNROLL
          for (int l = 0; l < N; ++l) d[l] *= kept[l];
        }
        sum = sum + d;
      }
      store_wide(dpositions, position * cols + k * N, sum);
    });
  }
  /// Local index of a position on this context rank; -1 if it is elsewhere.
  TANDEM_HD std::int64_t local_index(std::int64_t position) const {
    const SequenceMap& map = places.map;
    if (position >= map.length()) return -1;
    for (std::int64_t begin = 0; begin < map.local_seq; begin += map.piece()) {
      const std::int64_t within = position - map.position(places.context_rank, begin);
      if (within >= 0 && within < map.piece()) return begin + within;
    }
    return -1;
  }
  /// The shard's first row with this local index.
  TANDEM_HD std::int64_t first_with(std::int64_t index) const {
    const std::int64_t seq = places.map.local_seq, behind = index - places.first_row % seq;
    return behind < 0 ? behind + seq : behind;
  }
};

}  // namespace tandem::exec::device
