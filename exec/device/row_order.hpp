#pragma once
// Reorders rows of several context ranks by position.

#include "exec/data/sequence_map.hpp"
#include "exec/device/chunk.hpp"
#include "exec/device/typed.hpp"

namespace tandem::exec::device {

/// Some columns of rows of `groups` groups of heads, each `width` columns wide: of each group, `cols` columns from `first` on.
struct GroupColumns {
  std::int64_t groups, width, first, cols;

  /// each(): columns chosen per row. cell(): offset in the whole rows of element `i` of the chosen ones, packed; `row` is its row.
  TANDEM_HD std::int64_t each() const { return groups * cols; }
  TANDEM_HD std::int64_t cell(std::int64_t row, std::int64_t i) const {
    return (row * groups + i / cols % groups) * width + first + i % cols;
  }
};

/// Copies columns of rows ordered (context rank, sequence, position) to rows ordered (sequence, position); `back`: reverse.
struct RowOrderKernel {
  Form form;
  Typed from, to;
  std::int64_t batch;
  SequenceMap shards;
  GroupColumns columns;
  bool back;

  TANDEM_HD std::int64_t elements() const { return batch * shards.length() * columns.each(); }
  Grid grid() const { return chunks(elements()); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    each_in_chunk(block, elements(), [&](std::int64_t i) {
      const std::int64_t row = i / columns.each(), length = shards.length();
      const SequenceMap::Place place = shards.place(row % length);
      const std::int64_t shared = (place.rank * batch + row / length) * shards.local_seq + place.index;
      S::put(to, columns.cell(back ? shared : row, i), S::get(from, columns.cell(back ? row : shared, i)));
    });
  }
};

}  // namespace tandem::exec::device
