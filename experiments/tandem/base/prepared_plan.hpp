#pragma once
// Loads, checks and lowers a plan file. simulate, train and explain start with this.

#include <memory>
#include <optional>
#include <string>

#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "reports/prediction/prediction.hpp"
#include "topology/topology.hpp"

namespace tandem::program {

struct PreparedPlan {
  Plan plan;
  TaskGraph graph;
};

/// Refuses the name of a model preset where a plan file is wanted, and says how to get one. Throws ConfigError.
void require_plan_file(const std::string& path);

/// Loads and lowers a plan file. `perturbation` (JSON or a file with JSON) replaces the plan's cluster.perturbation, `stack`
/// ("NAME" or "NAME@2024-07") its stack, unless empty. Throws ConfigError or InfeasibleError; every problem names the file.
PreparedPlan prepare(const std::string& path, const std::string& perturbation = {}, const std::string& stack = {});

/// As above, from a file's text, because a pipe can be read only once.
PreparedPlan prepare_text(const std::string& text, const std::string& path, const std::string& stack = {});

/// The stack named by --stack; nullopt if it is empty. Throws ConfigError.
std::optional<StackChoice> chosen_stack(const std::string& stack);

/// The plan's cluster. A non-empty `cost_table` is a file written by `measure`. It must describe the plan's devices; for a CPU, in
/// the plan's compute type. Throws ConfigError or InfeasibleError.
std::shared_ptr<const Topology> topology_of(const Plan& plan, const std::string& cost_table);

/// Logs a line if this machine's own table is not used because it was measured in another type than the plan's.
void tell_other_type(const Plan& plan, const Topology& topology);

/// Name of the measured table that the prediction used; empty if all times were computed from device facts.
std::string measured_table(const Plan& plan, const Topology& topology, const Prediction& prediction);

/// `prediction.timeline` with each lane's planned memory filled in. Throws ContractError if there is no timeline.
Timeline timeline_of(const Prediction& prediction);

/// Runs `work`. If it throws a problem that names no file, adds `file` to it.
template <class Work>
auto naming(const std::string& file, Work work) {
  const auto named = [&](std::vector<Problem> problems) {
    for (Problem& p : problems)
      if (p.file.empty()) p.file = file;
    return problems;
  };
  try {
    return work();
  } catch (const InfeasibleError& e) {
    throw InfeasibleError(named(e.problems()));
  } catch (const ConfigError& e) {
    throw ConfigError(named(e.problems()));
  }
}

}  // namespace tandem::program
