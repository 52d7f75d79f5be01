#pragma once
// Dropout with bias and residual, for hidden states and embeddings.

#include "exec/device/chunk.hpp"
#include "exec/device/documents.hpp"
#include "exec/device/dropout.hpp"
#include "exec/device/typed.hpp"

namespace tandem::exec::device {

/// dropout(x + bias) + residual of hidden states. Bias and residual may be missing.
struct DropoutAdd {
  Typed x, bias, residual;
  std::int64_t cols;
  Dropout dropout;
  HiddenRows places;
  std::int64_t shares = 1, share = 0;  ///< of a row's columns, for which one mask is drawn

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
      const std::int64_t row = places.token(cell.row, *dropout.table) * shares + share;
      const Wide<A, N> kept = dropout.factors<A, N>(static_cast<std::uint64_t>(row * cols + cell.col));
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

/// Rows of hidden states, and each one's position in its document.
struct PositionRows {
  HiddenRows hidden;
  Documents documents;

  TANDEM_HD std::int64_t of(std::int64_t row) const {
    const std::int64_t position = hidden.position(row);
    return position - documents.start(hidden.sequence(row), position);
  }
};

/// y = dropout(x + position[pos]). Without a table y = dropout(x), which is also the gradient.
struct PositionKernel {
  Form form;
  Typed x, positions, y;
  std::int64_t rows, cols;
  Dropout dropout;
  PositionRows places;

  Grid grid() const { return chunks(rows * cols); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const bool may = are_aligned(kLanes<S>, x, positions, y) && cols % kLanes<S> == 0;
    each_wide<kLanes<S>>(block, rows * cols, may, [&](auto lanes, std::int64_t i) {
      constexpr int n = decltype(lanes)::n;
      const Cell at = cell_of(i, cols);
      Wide<A, n> sum = get<S, n>(x, i);
      if (positions.here()) sum = sum + load_wide<A, n>(positions, places.of(at.row) * cols + at.col);
      if (dropout.threshold != 0) {
        const std::int64_t first = places.hidden.token(at.row, *dropout.table) * cols + at.col;
        const auto kept = dropout.factors<A, n>(static_cast<std::uint64_t>(first));
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
  PositionRows places;

  static constexpr std::int64_t kListed = 2048;  ///< rows whose positions are compared at a time
  /// Shared memory: the rows of a position that any document may have anywhere.
  Grid grid() const {
    return {positions, places.documents.here() ? static_cast<std::size_t>(kListed) * sizeof(std::int32_t) : 0};
  }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    if (are_aligned(kLanes<S>, dy, dpositions) && cols % kLanes<S> == 0)
      sum<S, kLanes<S>>(block);
    else
      sum<S, 1>(block);
  }

 private:
  template <class S, int N, class Block>
  TANDEM_HD void sum(Block& block) const {
    if (places.documents.here()) return of_documents<S, N>(block);
    using A = typename S::Number;
    const std::int64_t index = local_index(block.index()), step = places.hidden.map.local_seq;
    const std::int64_t first = index < 0 ? rows : first_with(index);
    block.each(cols / N, [&](std::int64_t k) {
      Wide<A, N> all = zeros<A, N>();
      TANDEM_UNROLL_4
      for (std::int64_t row = first; row < rows; row += step) all = all + gradient<S, N>(row, k * N);
      store_wide(dpositions, block.index() * cols + k * N, all);
    });
  }
  template <class S, int N, class Block>
  TANDEM_HD void of_documents(Block& block) const {
    using A = typename S::Number;
    auto* listed = reinterpret_cast<std::int32_t*>(block.shared());
    for (std::int64_t from = 0; from < rows; from += kListed) {
      const std::int64_t n = rows - from < kListed ? rows - from : kListed;
      const std::int64_t found = block.select(n, listed, [&](std::int64_t i) { return places.of(from + i) == block.index(); });
      if (found == 0 && from > 0) continue;
      block.each(cols / N, [&](std::int64_t k) {
        const std::int64_t cell = block.index() * cols + k * N;
        Wide<A, N> all = from == 0 ? zeros<A, N>() : load_wide<A, N>(dpositions, cell);
        TANDEM_UNROLL_4
        for (std::int64_t i = 0; i < found; ++i) all = all + gradient<S, N>(from + listed[i], k * N);
        store_wide(dpositions, cell, all);
      });
    }
  }
  /// N elements of dy behind the dropout.
  template <class S, int N>
  TANDEM_HD Wide<typename S::Number, N> gradient(std::int64_t row, std::int64_t col) const {
    using A = typename S::Number;
    Wide<A, N> d = get<S, N>(dy, row * cols + col);
    if (dropout.threshold == 0) return d;
    const auto kept = dropout.factors<A, N>(static_cast<std::uint64_t>(places.hidden.token(row, *dropout.table) * cols + col));
    TANDEM_UNROLL
    for (int l = 0; l < N; ++l) d[l] *= kept[l];
    return d;
  }
  /// Local index of a position on this context rank; -1 if it is elsewhere.
  TANDEM_HD std::int64_t local_index(std::int64_t position) const {
    const SequenceMap& map = places.hidden.map;
    if (position >= map.length()) return -1;
    for (std::int64_t begin = 0; begin < map.local_seq; begin += map.piece()) {
      const std::int64_t within = position - map.position(places.hidden.context_rank, begin);
      if (within >= 0 && within < map.piece()) return begin + within;
    }
    return -1;
  }
  /// The shard's first row with this local index.
  TANDEM_HD std::int64_t first_with(std::int64_t index) const {
    const std::int64_t seq = places.hidden.map.local_seq, behind = index - places.hidden.first_row % seq;
    return behind < 0 ? behind + seq : behind;
  }
};

}  // namespace tandem::exec::device
