#pragma once
// Sizes of one rank's attention after context parallelism has exchanged queries, keys and values.

#include <algorithm>

#include "models/lowering/shapes/shapes.hpp"

namespace tandem::lowering {

/// After the exchange of heads: packed qkv of a group of ranks, rows ordered (rank, sequence, position).
/// With more ranks than key heads each rank has one key head, and several ranks have the same one.
inline AttentionDims exchanged_dims(const Shapes& s) {
  AttentionDims d = s.attention_dims();
  if (!s.exchanges_heads()) return d;
  if (d.kv_heads > 0) d.kv_heads = std::max<std::int64_t>(1, d.kv_heads / s.head_ranks);
  d.heads /= s.head_ranks;
  d.seq *= s.head_ranks;
  d.share = AttentionShare::heads;
  d.row_shards = s.head_ranks;
  return d;
}

/// After the exchange of heads and of keys.
inline AttentionDims core_dims(const Shapes& s) {
  AttentionDims d = exchanged_dims(s);
  if (s.path == ContextPath::none) return d;
  d.kv_packed = false;
  d.share = AttentionShare::queries;
  d.head_ranks = s.head_ranks;
  if (s.path != ContextPath::all_gather) return d;
  d.keys = s.seq * s.context;
  d.row_shards = s.context;
  return d;
}

/// How the columns of attention's output, and of qkv, are split among the ranks that exchange heads.
inline ColumnParts parts_of_context(const Shapes& s) { return {s.tokens, s.attention, s.head_ranks}; }
inline ColumnParts parts_of_qkv(const Shapes& s) {
  const AttentionDims d = s.attention_dims();
  ColumnParts p{s.tokens, s.qkv(), s.head_ranks};
  if (d.groups() < s.head_ranks) p.repeat = s.head_ranks / d.groups(), p.common = d.pair_width();
  return p;
}

/// Elements of qkv at the attention kernel's input. Where ranks exchange heads: this rank's heads at their positions.
inline std::int64_t core_qkv_elements(const Shapes& s) {
  return s.exchanges_heads() ? parts_of_qkv(s).parted() : s.tokens * s.qkv();
}

/// A recurrence needs whole sequences, so context ranks divide the heads of a tensor rank among themselves. With more ranks than key
/// heads each rank has one key head, and several ranks have the same one.
inline RecurrenceDims scan_dims(const Shapes& s) {
  RecurrenceDims d = s.recurrence_dims();
  d.seq *= s.context;
  d.heads /= s.context;
  d.key_heads = std::max<std::int64_t>(1, d.key_heads / s.context);
  return d;
}

/// Vectors with a number for every value head that a recurrence learns: decay, step and, with mamba2, skip. They are neighbours.
inline std::int64_t head_vector_count(const RecurrenceDims& d) { return d.rule == RecurrenceRule::mamba2 ? 3 : 2; }

/// How context ranks divide x[rows, columns of queries, keys and values, each]: `each` numbers for every column.
inline ColumnParts parts_of_mixed(const Shapes& s, std::int64_t rows, std::int64_t each = 1) {
  const RecurrenceDims d = s.recurrence_dims();
  ColumnParts p{rows, d.mixed() * each, s.context};
  if (d.key_heads < s.context) p.repeat = s.context / d.key_heads, p.common = 2 * d.key_dim * each, p.common_first = true;
  return p;
}
/// How they divide columns of which every value head has equally many.
inline ColumnParts parts_of_heads(const Shapes& s, std::int64_t rows, std::int64_t cols) { return {rows, cols, s.context}; }

/// Places in what a recurrence reads: queries, keys and values of its heads, the output's gate, scalars of its heads. The first
/// product writes all heads' at this rank's positions, from `made` on. Context ranks then exchange all but the gate, in place.
struct ScanInput {
  std::int64_t mixed;               ///< elements of queries, keys and values, which come first
  std::int64_t gate, scalars, end;  ///< where these begin and end
  std::int64_t made;

  explicit ScanInput(const Shapes& s) {
    const RecurrenceDims d = s.recurrence_dims();
    mixed = gate = parts_of_mixed(s, d.rows()).parted();
    scalars = gate + d.rows() * d.values();
    end = scalars + d.rows() * d.scalars();
    made = mixed - d.rows() * d.mixed();
  }
};

/// Elements of the score matrix, and of flash attention's row statistics.
inline std::int64_t score_elements(const AttentionDims& d) { return d.batch * d.heads * d.seq * d.key_count(); }
inline std::int64_t stats_elements(const AttentionDims& d) { return d.batch * d.heads * d.seq; }

}  // namespace tandem::lowering
