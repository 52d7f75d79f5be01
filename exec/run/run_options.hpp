#pragma once
// What a run is asked for: steps, where it starts, what it keeps, whom it calls.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/backend/backend.hpp"
#include "exec/communicator/communicator.hpp"
#include "exec/data/data.hpp"
#include "exec/run/rank_failure.hpp"
#include "exec/run/run_result.hpp"
#include "exec/state/training_state.hpp"
#include "models/graph/segments.hpp"

namespace tandem::exec {

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
  /// Called where the host has no memory to gather the state of so many steps or for on_state; empty: the run fails.
  std::function<void(std::int64_t steps)> on_state_lost;
  std::int64_t state_every = 0;
  EvaluationRhythm evaluation;
  const TokenSource* evaluation_data = nullptr;     ///< its sequences from 0 on; needed where something is evaluated
  std::function<void(const EvaluationResult&)> on_evaluation;  ///< as on_step
  /// Replaces initial values (fixtures): called with each parameter's name and its whole row-major value in fp64.
  std::function<void(const std::string& name, std::vector<double>& full)> initialise;
  /// Called as on_step behind the first step, with a sentence for whatever is done in a slower way than the plan asks for.
  std::function<void(const std::string&)> on_note;
  /// Called once all ranks have ended, where one has failed, before its cause is thrown: with what the run had until then (steps,
  /// evaluations, books).
  std::function<void(const RankFailure&, const RunResult&)> on_failure;
  /// Makes one rank's backend; empty: make_cpu_backend.
  BackendFactory make_backend;
  /// Makes the communicators of so many ranks; empty: make_thread_communicators.
  std::function<std::vector<std::unique_ptr<Communicator>>(int world)> make_communicators;
};

}  // namespace tandem::exec
