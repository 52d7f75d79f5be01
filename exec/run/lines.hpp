#pragma once
// What a run's collectives and messages go over.

#include <vector>

#include "exec/communicator/communicator.hpp"
#include "exec/run/run_context.hpp"

namespace tandem::exec {

/// Of all stages of all graphs: the same at every rank.
Lines lines_of(const std::vector<const RunContext*>& graphs);

}  // namespace tandem::exec
