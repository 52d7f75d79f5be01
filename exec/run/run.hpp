#pragma once
// The runtime's front door: really trains a plan with ranks as threads of this process.

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/communicator/communicator.hpp"
#include "exec/cpu/backend.hpp"
#include "exec/data/data.hpp"
#include "exec/run/rank_failure.hpp"
#include "exec/state/training_state.hpp"
#include "models/graph/segments.hpp"
#include "reports/timeline/timeline.hpp"

namespace tandem::exec {

struct StepResult {
  std::int64_t step = 0;        ///< 0-based
  double loss = 0;              ///< mean over the tokens of the global batch
  double grad_norm = 0;         ///< before clipping
  double learning_rate = 0;
  double step_time_s = 0;
  std::int64_t global_batch_size = 0;
  /// The update was left out: gradients were not finite.
  bool skipped() const { return !std::isfinite(grad_norm); }
};

/// Mean loss over the batches of one evaluation: forward passes without dropout.
struct EvaluationResult {
  std::int64_t step = 0;        ///< the last one trained before it
  double loss = 0;
};

struct RunResult;

struct RunOptions {
  std::int64_t steps = 1;               ///< of the whole run, those before `resume` counted in
  std::int64_t timeline_step = -1;      ///< step whose spans are kept; -1: none
  const TrainingState* resume = nullptr;  ///< where the run goes on, some of its steps done; initial values where there is none
  bool gather_gradients = false;        ///< after each step: gradients as reduced, before clipping
  bool gather_weights = false;          ///< after the last step
  std::function<void(const StepResult&)> on_step;   ///< called by rank 0's thread
  /// Asked by rank 0's thread behind every step: whether the run ends there. Where the last step's timeline is wanted one
  /// more step is done, whose timeline is kept.
  std::function<bool()> stop;
  /// Called by rank 0's thread behind every `state_every`-th step (0: none) and the last one. An evaluation due there comes
  /// after it, and first when the run is resumed.
  std::function<void(const TrainingState&)> on_state;
  std::int64_t state_every = 0;
  EvaluationRhythm evaluation;
  const TokenSource* evaluation_data = nullptr;     ///< its sequences from 0 on; needed where something is evaluated
  std::function<void(const EvaluationResult&)> on_evaluation;  ///< as on_step
  /// Replaces initial values (fixtures): called with each parameter's name and its whole row-major value in fp64.
  std::function<void(const std::string& name, std::vector<double>& full)> initialise;
  /// Called once all ranks have ended, where one has failed, before its cause is thrown: with what the run had until then (steps,
  /// evaluations, books).
  std::function<void(const RankFailure&, const RunResult&)> on_failure;
  /// Makes one rank's backend; empty: make_cpu_backend.
  std::function<std::unique_ptr<Backend>()> make_backend;
};

struct RankBooks {
  BackendCounters backend;
  CommCounters comm;
  std::int64_t arena_bytes = 0;         ///< as allocated
  std::int64_t arena_touched_bytes = 0; ///< end of the highest byte any operand reached
  std::vector<std::pair<std::uint32_t, std::uint16_t>> issue_order;                  ///< (instance, task) as issued, last step
  std::vector<std::vector<std::pair<std::uint32_t, std::uint16_t>>> stream_order;    ///< by Stream, as started, last step
};

struct RunResult {
  std::vector<StepResult> steps;
  std::vector<EvaluationResult> evaluations;
  std::vector<RankBooks> ranks;                        ///< evaluations counted in, but for the orders
  std::vector<std::vector<GatheredTensor>> gradients;  ///< by step, ascending global_index
  std::vector<GatheredTensor> weights;
  std::shared_ptr<const Timeline> timeline;            ///< of timeline_step
};

/// Trains the cache's plan for `options.steps`, with its ramp-up, each segment on the graph of its batch. Blocking. The first failing rank's cause is thrown as CommError or DeviceError with its
/// rank; every other rank is woken. `supports` is asked of the backend for every operation first (InfeasibleError).
/// A state that is resumed must be of fewer steps than `options.steps` (ConfigError), and of the plan's model and optimizer.
/// A plan that is not synchronised globally is refused (InfeasibleError): the runtime has no roll-back.
RunResult run(GraphCache& graphs, const TokenSource& data, const RunOptions& options);

/// The same of a plan with a constant batch, whose steps are `graph`.
RunResult run(const Plan& plan, const TaskGraph& graph, const TokenSource& data, const RunOptions& options);

}  // namespace tandem::exec
