#pragma once
// Dropout with what is added beside it, of hidden states and of embeddings.

#include "exec/device/chunk.hpp"
#include "exec/device/dropout.hpp"
#include "exec/device/typed.hpp"

namespace tandem::exec::device {

/// y = dropout(x + bias) + residual, each only where it is there. Its gradient is the same without bias and residual.
struct DropoutKernel {
  Form form;
  Typed x, bias, residual, y;
  std::int64_t rows, cols;
  Dropout dropout;
  HiddenRows places;

  Grid grid() const { return chunks(rows * cols); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    each_in_chunk(block, rows * cols, [&](std::int64_t i) {
      const std::int64_t row = i / cols, col = i % cols;
      const A sum = bias.here() ? S::get(x, i) + load<A>(bias, col) : S::get(x, i);
      const A kept = mask<A>(row, col) * sum;
      S::put(y, i, residual.here() ? kept + S::get(residual, i) : kept);
    });
  }

 private:
  template <class A>
  TANDEM_HD A mask(std::int64_t row, std::int64_t col) const {
    if (dropout.threshold == 0) return A{1};
    return dropout.factor<A>(static_cast<std::uint64_t>(places.token(row, *dropout.table) * cols + col));
  }
};

/// y = dropout(x + position[pos]); without a table y = dropout(x), which is its gradient, too.
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
    each_in_chunk(block, rows * cols, [&](std::int64_t i) {
      const std::int64_t row = i / cols, col = i % cols;
      A sum = S::get(x, i);
      if (positions.here()) sum += load<A>(positions, places.position(row) * cols + col);
      const auto index = static_cast<std::uint64_t>(places.token(row, *dropout.table) * cols + col);
      S::put(y, i, dropout.factor<A>(index) * sum);
    });
  }
};

/// A block for each position: the sum over the rows that have it, ascending; 0 where none has.
struct PositionGradKernel {
  Form form;
  Typed dy, dpositions;
  std::int64_t rows, cols, positions;
  Dropout dropout;
  HiddenRows places;

  Grid grid() const { return {positions}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t position = block.index(), index = local_index(position);
    block.each(cols, [&](std::int64_t c) {
      A sum = A{0};
      for (std::int64_t row = first_with(index); index >= 0 && row < rows; row += places.map.local_seq) {
        const auto at = static_cast<std::uint64_t>(places.token(row, *dropout.table) * cols + c);
        sum += dropout.factor<A>(at) * S::get(dy, row * cols + c);
      }
      store(dpositions, position * cols + c, sum);
    });
  }

 private:
  /// Of a position on this context rank, or -1.
  TANDEM_HD std::int64_t local_index(std::int64_t position) const {
    const SequenceMap& map = places.map;
    if (position >= map.length()) return -1;
    for (std::int64_t begin = 0; begin < map.local_seq; begin += map.piece()) {
      const std::int64_t within = position - map.position(places.context_rank, begin);
      if (within >= 0 && within < map.piece()) return begin + within;
    }
    return -1;
  }
  /// The first row of the shard with a local index.
  TANDEM_HD std::int64_t first_with(std::int64_t index) const {
    const std::int64_t seq = places.map.local_seq, behind = index - places.first_row % seq;
    return behind < 0 ? behind + seq : behind;
  }
};

}  // namespace tandem::exec::device
