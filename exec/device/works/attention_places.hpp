#pragma once
// Where an attention's heads lie in its operands, and its queries and keys in their sequences.

#include "exec/device/works/operands.hpp"

namespace tandem::exec::device {

/// This rank's index among the context ranks that share a tensor rank's heads.
inline std::int64_t head_part(const AttentionDims& d, const KernelContext& c) { return c.context_rank % d.query_shards(); }

/// Whether the operands' rows are those of this rank, of the ranks that divide its heads, or of all context ranks.
inline bool shares_rows(const AttentionDims& d, std::int64_t ranks, int ring_step) {
  if (d.share == AttentionShare::whole) return d.row_shards == 1;
  if (d.share == AttentionShare::heads) return d.row_shards == ranks && ring_step < 0;
  const bool own = d.row_shards == 1 && d.head_ranks == 1;
  return ranks % d.head_ranks == 0 && (own || d.row_shards == (ring_step >= 0 ? d.head_ranks : ranks));
}

inline AttentionPlace place_of(const AttentionDims& d, const Operands& at, int ring_step = -1) {
  const KernelContext& c = at.context();
  const std::int64_t parts = d.query_shards(), ranks = c.context_size / parts, rank = c.context_rank / parts;
  require(shares_rows(d, c.context_size, ring_step), "rows of other ranks in an attention that does not share its work with them");
  require(d.window == 0 || (d.causal && ring_step < 0), "a window of keys in a ring, or where all keys are seen");
  AttentionPlace place{d.batch, d.heads, d.seq, d.key_count(), d.head_dim, (c.tensor_rank * parts + head_part(d, c)) * d.heads,
                       c.tensor_size * parts * d.heads, c.first_sequence, d.causal, false, {}, d.window, d.chunked};
  place.scale = d.score_factor();
  require(!d.documents || d.causal, "documents where all keys are seen");
  place.documents = at.documents(d.documents);
  if (d.share == AttentionShare::queries) place.queries_of = SequenceMap(ranks, d.seq), place.query_rank = rank;
  if (ring_step < 0) return place;
  place.keys_of = SequenceMap(ranks, d.key_count());
  place.key_rank = (rank + ranks - ring_step % ranks) % ranks;
  return place;
}

inline HeadLayout layout_of(const AttentionDims& d) {
  const std::int64_t q_width = d.q_packed ? d.qkv_width() : d.q_width(), kv_width = d.kv_packed ? d.qkv_width() : d.kv_width();
  HeadLayout l{d.head_dim, d.value_width(), d.per_group(), q_width, kv_width, d.seq, d.key_count(),
               d.q_packed, d.kv_packed,     d.heads,       d.batch};
  l.query_shards = SequenceMap(d.query_shards(), d.seq / d.query_shards());
  l.key_shards = SequenceMap(d.row_shards, d.key_count() / d.row_shards);
  return l;
}

}  // namespace tandem::exec::device
