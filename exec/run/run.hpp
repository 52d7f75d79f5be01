#pragma once
// The runtime's front door: really trains a plan with ranks as threads, of one process or of several.

#include "exec/data/data.hpp"
#include "exec/process/world.hpp"
#include "exec/run/run_options.hpp"
#include "exec/run/run_result.hpp"
#include "models/graph/segments.hpp"

namespace tandem::exec {

/// Trains the cache's plan for `options.steps`, with its ramp-up, each segment on the graph of its batch. Blocking. The first failing rank's cause is thrown as CommError or DeviceError with its
/// rank; every other rank is woken. `supports` is asked of the backend for every operation first (InfeasibleError).
/// A state that is resumed must be of fewer steps than `options.steps` (ConfigError), and of the plan's model and optimizer.
/// A plan that is not synchronised globally is refused (InfeasibleError): the runtime has no roll-back.
RunResult run(GraphCache& graphs, const TokenSource& data, const RunOptions& options);

/// The same with the ranks of `world`'s processes, which all call it alike. Callbacks are called, and the result is whole, at process 0
/// alone; a `keeper` must be given everywhere, and where `stop` says so in any process the run ends. The clocks' moments are those of
/// process 0.
RunResult run(GraphCache& graphs, const TokenSource& data, const RunOptions& options, World& world);

/// The same of a plan with a constant batch, whose steps are `graph`.
RunResult run(const Plan& plan, const TaskGraph& graph, const TokenSource& data, const RunOptions& options);

}  // namespace tandem::exec
