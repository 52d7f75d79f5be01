#pragma once
// Interface of the object that saves the training state during a run.

#include <functional>
#include <span>

#include "exec/state/param_layout.hpp"
#include "exec/state/saved_state.hpp"

namespace tandem::exec {

/// The training state of one process between two steps. No rank is writing meanwhile.
struct StateMoment {
  StateFacts facts;
  const Plan& plan;
  std::span<const RankState> world;  ///< every rank; ranks of other processes have arena = nullptr
  /// Calls its argument at process 0 with the states of all ranks, readable there. The other processes serve these reads and do not
  /// call their argument. All processes must call it.
  std::function<void(const std::function<void(std::span<const RankState>)>&)> with_all;
};

/// Every process calls its keeper at the same points, on the thread that communicates with the other processes.
class StateKeeper {
 public:
  virtual ~StateKeeper() = default;
  /// Called after each step that RunOptions::state_every selects, and after the last one. Has read the arenas when it returns.
  virtual void keep(const StateMoment& moment) = 0;
  /// Called after each other step.
  virtual void go_on() {}
  /// Completes pending saves. Called after the run; after a failure only if there is just one process.
  virtual void finish() {}
};

}  // namespace tandem::exec
