#pragma once
// A library's step of ring attention (arXiv 2310.01889) as one whole attention of some queries to some keys, and the kernels that add
// what it gives to what the earlier steps gave.

#include "exec/device/flash.hpp"
#include "exec/device/row_order.hpp"

namespace tandem::exec::device {

/// Queries and keys of a step, by index.
struct RingSpan {
  std::int64_t first_query, queries, first_key, keys;
};

/// All queries see all keys of the span, and no others do. Of a causal step behind the first: each rank's two pieces of a sequence are
/// before, or around, or behind those of another.
inline RingSpan ring_span(const AttentionPlace& p) {
  if (!p.causal) return {0, p.seq, 0, p.keys};
  if (p.key_rank < p.query_rank) return {0, p.seq, 0, p.keys / 2};
  return {p.seq / 2, p.seq / 2, 0, p.keys};
}

/// Where a library leaves the context and the statistics of a span: [batch, queries, heads * value_dim] and [batch, heads, queries].
struct RingParts {
  Typed context, stats;
};

/// A block for each query of a span: its contexts of both, each with the share that its sum of exponentials has.
struct RingMergeKernel {
  Form form;
  RingParts part;
  Typed context, stats;
  RingSpan span;
  std::int64_t batch;
  HeadLayout layout;

  Grid grid() const { return {batch * span.queries}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t sequence = block.index() / span.queries, i = block.index() % span.queries, query = span.first_query + i;
    const auto here = [&](std::int64_t head) { return load<A>(part.stats, (sequence * layout.heads + head) * span.queries + i); };
    const auto at = [&](std::int64_t head) { return (sequence * layout.heads + head) * layout.seq + query; };
    block.each(layout.heads * layout.value_dim, [&](std::int64_t e) {
      const std::int64_t head = e / layout.value_dim, cell = layout.context(head).at(sequence, query) + e % layout.value_dim;
      const Joined<A> both(load<A>(stats, at(head)), here(head));
      const A added = S::get(part.context, block.index() * layout.heads * layout.value_dim + e);
      S::put(context, cell, both.mix(S::get(context, cell), added));
    });
    block.each(layout.heads, [&](std::int64_t head) {
      store(stats, at(head), Joined<A>(load<A>(stats, at(head)), here(head)).stat());
    });
  }
};

/// to += part, of some rows of every sequence; both lie alike.
struct RingAddKernel {
  Form form;
  Typed part, to;
  std::int64_t batch, rows, first, count;
  GroupColumns columns;

  TANDEM_HD std::int64_t elements() const { return batch * count * columns.each(); }
  Grid grid() const { return chunks(elements()); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    each_in_chunk(block, elements(), [&](std::int64_t i) {
      const std::int64_t row = i / columns.each(), cell = columns.cell(row / count * rows + first + row % count, i);
      S::put(to, cell, S::get(to, cell) + S::get(part, cell));
    });
  }
};

}  // namespace tandem::exec::device
