#pragma once
// What the attention of one rank looks like once context parallelism has brought queries, keys and values together.

#include "models/lowering/shapes/shapes.hpp"

namespace tandem::lowering {

inline AttentionDims core_dims(const Shapes& s) {
  AttentionDims d = s.attention_dims();
  const std::int64_t c = s.context;
  switch (s.path) {
    case ContextPath::none: break;
    case ContextPath::all_gather:
      d.keys = s.seq * c;
      d.kv_packed = false;
      d.share = AttentionShare::queries;
      d.row_shards = c;
      break;
    case ContextPath::ring:
      d.kv_packed = false;
      d.share = AttentionShare::queries;
      break;
    case ContextPath::ulysses:
      d.heads /= c;
      d.kv_heads /= c;
      d.seq *= c;
      d.share = AttentionShare::heads;
      d.row_shards = c;
      break;
  }
  return d;
}

/// Elements of the score matrix, and of what flash attention keeps of it.
inline std::int64_t score_elements(const AttentionDims& d) { return d.batch * d.heads * d.seq * d.key_count(); }
inline std::int64_t stats_elements(const AttentionDims& d) { return d.batch * d.heads * d.seq; }

}  // namespace tandem::lowering
