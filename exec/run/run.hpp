#pragma once
// The runtime's main function: trains a plan. Ranks are threads of one process or of several.

#include "exec/data/data.hpp"
#include "exec/process/world.hpp"
#include "exec/run/run_options.hpp"
#include "exec/run/run_result.hpp"
#include "models/graph/segments.hpp"

namespace tandem::exec {

/// Trains the plan of `graphs` for `options.steps` steps, including its batch-size ramp-up. Blocks until all ranks have ended.
/// First checks that the backend supports every operation (else InfeasibleError). A resumed state must have fewer steps than that
/// (else ConfigError), and the plan's model and optimizer. The first failure of a rank ends the run: all others are woken, and it
/// is thrown as CommError or DeviceError. Plans without global synchronisation are refused (InfeasibleError): the runtime cannot
/// roll back.
RunResult run(GraphCache& graphs, const TokenSource& data, const RunOptions& options);

/// As above, with ranks in all processes of `world`. Every process must make the same call. Only process 0 calls callbacks and gets
/// the full result. Each process needs a `keeper` or none does. If `stop` returns true in any process, the run ends. Times refer to
/// process 0's clock.
RunResult run(GraphCache& graphs, const TokenSource& data, const RunOptions& options, World& world);

/// As above, for a plan with a constant batch size whose training steps are `graph`.
RunResult run(const Plan& plan, const TaskGraph& graph, const TokenSource& data, const RunOptions& options);

}  // namespace tandem::exec
