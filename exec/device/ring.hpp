#pragma once
// A step of ring attention (arXiv 2310.01889) for libraries: full attention of some queries to some keys, and kernels that add its
// result to the earlier steps' results.

#include "exec/device/flash.hpp"
#include "exec/device/row_order.hpp"

namespace tandem::exec::device {

/// The queries and keys of a step, by index.
struct RingSpan {
  std::int64_t first_query, queries, first_key, keys;
};

/// The queries that see keys in this step, and those keys; all see all. A rank has two pieces of a sequence. In causal steps after
/// the first, keys of a lower rank are seen in their first half by all queries; keys of a higher rank wholly, by the second half.
inline RingSpan ring_span(const AttentionPlace& p) {
  if (!p.causal) return {0, p.seq, 0, p.keys};
  if (p.key_rank < p.query_rank) return {0, p.seq, 0, p.keys / 2};
  return {p.seq / 2, p.seq / 2, 0, p.keys};
}

/// Where a library writes a span's context [batch, queries, heads * value_dim] and statistics [batch, heads, queries].
struct RingParts {
  Typed context, stats;
};

/// Merges a step's context with the earlier one, weighted by their sums of exponentials. One block per query of the span.
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

/// to += part for rows [first, first + rows) of every sequence.
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
