#pragma once
// Rows of several context ranks, put in the order of their positions.

#include "exec/data/sequence_map.hpp"
#include "exec/device/chunk.hpp"
#include "exec/device/typed.hpp"

namespace tandem::exec::device {

/// Columns of a row that a head group has: `cols` behind `first` of its `width`.
struct GroupColumns {
  std::int64_t groups, width, first, cols;
};

/// Copies some columns of rows ordered (context rank, sequence, position) to rows ordered (sequence, position), or `back`.
struct RowOrderKernel {
  Form form;
  Typed from, to;
  std::int64_t batch;
  SequenceMap shards;
  GroupColumns columns;
  bool back;

  std::int64_t elements() const { return batch * shards.length() * columns.groups * columns.cols; }
  Grid grid() const { return chunks(elements()); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    const std::int64_t all = batch * shards.context_size * shards.local_seq * columns.groups * columns.cols;
    each_in_chunk(block, all, [&](std::int64_t i) {
      const std::int64_t column = i % columns.cols, group = i / columns.cols % columns.groups, row = i / columns.cols / columns.groups;
      const std::int64_t length = shards.context_size * shards.local_seq;
      const SequenceMap::Place place = shards.place(row % length);
      const std::int64_t shared = (place.rank * batch + row / length) * shards.local_seq + place.index;
      const auto cell = [&](std::int64_t r) { return (r * columns.groups + group) * columns.width + columns.first + column; };
      S::put(to, cell(back ? shared : row), S::get(from, cell(back ? row : shared)));
    });
  }
};

}  // namespace tandem::exec::device
