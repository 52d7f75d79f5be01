#pragma once
// Whoever keeps a training's state while it goes on.

#include <functional>
#include <span>

#include "exec/state/param_layout.hpp"
#include "exec/state/saved_state.hpp"

namespace tandem::exec {

/// A training between two steps, on one process. Nobody is writing.
struct StateMoment {
  StateFacts facts;
  const Plan& plan;
  std::span<const RankState> world;  ///< every rank; those of other processes have no arena
  /// Lets process 0 read what all ranks of all processes keep: calls its argument there with arenas of every rank, and serves it in the
  /// others, where the argument is not called. All processes must call it.
  std::function<void(const std::function<void(std::span<const RankState>)>&)> with_all;
};

/// Every process calls its keeper alike, on the thread that speaks with the others.
class StateKeeper {
 public:
  virtual ~StateKeeper() = default;
  /// Behind each step that RunOptions::state_every names, and the last one. Has read the arenas when it returns.
  virtual void keep(const StateMoment& moment) = 0;
  /// Behind each other step.
  virtual void go_on() {}
  /// Behind the run, also where this process alone was all and has failed: what was begun is ended.
  virtual void finish() {}
};

}  // namespace tandem::exec
