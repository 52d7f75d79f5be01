#pragma once
// Context ranks in a ring. Private to models/planfile/plan_*.cpp.

#include "models/plan/parallel_spec.hpp"

namespace tandem {

/// Whether keys and values travel round a ring of context ranks.
inline bool has_ring(const ParallelSpec& q) { return head_ranks(q) < q.context && q.context_mode == ContextMode::ring; }

}  // namespace tandem
