#pragma once
// Trainings that are cut off and resumed, and the problem that a refusal tells.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "exec/run/run.hpp"
#include "models/base/error.hpp"
#include "tests/backends.hpp"
#include "tests/exec/cpu/numbers.hpp"
#include "tests/exec/state/kept_files.hpp"
#include "tests/exec/state/whole_state.hpp"

namespace tandem::exec::test {

struct Cut {
  std::int64_t steps, every = 0;
  const SavedState* resume = nullptr;
};

inline RunResult train(const Plan& plan, const Cut& cut, StateKeeper* keeper) {
  GraphCache graphs(plan);
  RunOptions o = tandem::tests::run_options();
  o.steps = cut.steps;
  o.gather_gradients = o.gather_weights = true;
  o.resume = cut.resume;
  o.state_every = cut.every;
  o.keeper = keeper;
  return run(graphs, Numbers(), o);
}

/// Trains and returns the states that were told, the last one behind the last step.
inline std::pair<RunResult, std::vector<WholeState>> train(const Plan& plan, const Cut& cut) {
  MemoryKeeper keeper;
  RunResult result = train(plan, cut, &keeper);
  return {std::move(result), std::move(keeper.states)};
}

inline std::string problem_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

}  // namespace tandem::exec::test
