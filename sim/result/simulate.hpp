#pragma once
// The simulator's front door: a plan in, a prediction out.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "models/graph/routing.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "reports/prediction/prediction.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// Called now and then with the progress of a simulation in a few words: by one thread at a time, not always the caller's.
using TellProgress = std::function<void(const std::string& what)>;

struct SimulateOptions {
  bool timeline = false;  ///< record spans of every role
  bool memory_over_time = false;
  bool unfolded = false;  ///< every rank is a role of its own (tests)
  bool every_breakdown = true;  ///< RolePrediction::time_breakdown_s of all roles, not of the critical one alone
  bool fits = false;      ///< fits_memory() returned true for the plan: its allocators are not simulated again
  std::vector<std::string> range_without;  ///< sources whose records the range must not rest on
  const Routing* routing = nullptr;  ///< rows of experts in a real run, by rank; must outlive the call
  TellProgress progress;  ///< may be empty
  /// Seeds of a jitter that are simulated at the same time, on threads; fewer on fewer cores. Each needs memory for all times.
  int seeds_at_once = 2;
};

/// Predicts one optimizer step on `topology` with the plan's perturbation. Deterministic: equal inputs give byte-equal outputs.
/// Throws InfeasibleError if the plan has more ranks than the topology, or if a lost link leaves traffic no way; ConfigError if the
/// perturbation names unknown parts of it. A plan too large for memory is simulated all the same (`fits` is false).
Prediction simulate(const Plan& plan, const TaskGraph& graph, const Topology& topology,
                    const SimulateOptions& options = {});

/// Whether a prediction's note is about how it was made (roles, unverified facts, missing measurements), not about the plan.
bool is_about_method(std::string_view note);

}  // namespace tandem::sim
