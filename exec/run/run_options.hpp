#pragma once
// Options of a run: number of steps, state to resume, what to keep, callbacks.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/backend/backend.hpp"
#include "exec/communicator/communicator.hpp"
#include "exec/data/data.hpp"
#include "exec/process/world.hpp"
#include "exec/run/rank_failure.hpp"
#include "exec/run/run_result.hpp"
#include "exec/state/state_keeper.hpp"
#include "models/graph/segments.hpp"

namespace tandem::exec {

struct RunOptions {
  std::int64_t steps = 1;               ///< of the whole run, including those before `resume`
  std::int64_t timeline_step = -1;      ///< step whose spans are kept; -1: none
  const SavedState* resume = nullptr;  ///< state to continue from; nullptr: start from initial values
  const SavedState* weights = nullptr; ///< weights to begin with (load_weights); nullptr: initial values. Not with `resume`
  bool gather_gradients = false;        ///< keep each step's gradients, reduced but not clipped
  bool gather_weights = false;          ///< keep the weights after the last step
  std::function<void(const StepResult&)> on_step;   ///< called by rank 0's thread
  /// Called by rank 0's thread after every step. Returning true ends the run. If the timeline of the last step is wanted, one more
  /// step runs and is recorded.
  std::function<bool()> stop;
  /// In every process it is called after each `state_every`-th step (0: never) and after the last step. An evaluation due then
  /// comes afterwards, also when the run is resumed. nullptr: no state is saved.
  StateKeeper* keeper = nullptr;
  std::int64_t state_every = 0;
  EvaluationRhythm evaluation;
  const TokenSource* evaluation_data = nullptr;     ///< evaluations use its sequences from index 0 on; required if there are any
  std::function<void(const EvaluationResult&)> on_evaluation;  ///< called by rank 0's thread
  /// > 0: trains nothing, but evaluates once on so many full global batches of `evaluation_data`, with on_scores. `steps` is 0 then.
  std::int64_t only_evaluate = 0;
  /// Called by rank 0's thread after each batch of such a run, with the scores of the batch's sequences, ascending. A loss in one kernel
  /// (FusionSet::one_kernel_loss) cannot be scored.
  std::function<void(const std::vector<SequenceScore>&)> on_scores;
  /// Replaces initial values (for tests). Called with each parameter's name and its whole value, row-major in fp64.
  std::function<void(const std::string& name, std::vector<double>& full)> initialise;
  /// Called by rank 0's thread after the first step, once for each sentence about work that runs slower than the plan says.
  std::function<void(const std::string&)> on_note;
  /// Called if a rank failed, after all ranks have ended and before the exception is thrown. The result holds the steps,
  /// evaluations and counters so far.
  std::function<void(const RankFailure&, const RunResult&)> on_failure;
  /// Makes one rank's backend; empty: make_cpu_backend.
  BackendFactory make_backend;
  /// Makes the communicators of this process' ranks; empty: World::make_communicators.
  std::function<std::vector<std::unique_ptr<Communicator>>(World&)> make_communicators;
};

}  // namespace tandem::exec
