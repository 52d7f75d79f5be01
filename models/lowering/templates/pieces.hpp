#pragma once
// A template in pieces, so that tasks of another one may stand between them.

#include <vector>

#include "models/graph/task_graph.hpp"

namespace tandem::lowering {

/// Pieces that together are `t`, in order: each but the first begins with a computation that reads rows which experts' ranks exchange in
/// the piece before. They have the slots of `t` and behind them one more, "held", which is the scratch of `t`; their own scratch is
/// empty. One piece: `t` exchanges nothing that it then reads.
std::vector<Template> pieces_of(const Template& t);

}  // namespace tandem::lowering
