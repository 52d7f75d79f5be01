#pragma once
// The connections that a run needs: groups for its collectives, and pairs of ranks for its messages.

#include <vector>

#include "exec/communicator/communicator.hpp"
#include "exec/run/run_context.hpp"

namespace tandem::exec {

/// The connections of all stages of all graphs. Every rank gets the same list.
Lines lines_of(const std::vector<const RunContext*>& graphs);

}  // namespace tandem::exec
