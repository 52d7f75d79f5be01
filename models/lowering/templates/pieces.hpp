#pragma once
// Cuts a template in pieces, so that tasks of another template can run between them.

#include <vector>

#include "models/graph/task_graph.hpp"

namespace tandem::lowering {

/// Pieces of `t` in order. Each but the first begins with a computation that reads rows which the
/// piece before exchanged among expert ranks. A piece has the slots of `t` plus "held", which holds
/// the scratch of `t`; its own scratch is empty. One piece: `t` reads no rows that it exchanges.
std::vector<Template> pieces_of(const Template& t);

}  // namespace tandem::lowering
