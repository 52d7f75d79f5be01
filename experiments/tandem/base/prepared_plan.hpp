#pragma once
// What simulate, train and explain begin with: a plan file, read, checked and lowered.

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

/// Loads and lowers a plan file. `perturbation`, when not empty, takes the place of the plan's cluster.perturbation: such an object
/// as JSON, or a file that holds one. `stack`, when not empty ("NAME" or "NAME@2024-07"), takes the place of the plan's. Throws ConfigError or InfeasibleError; every problem names the file.
PreparedPlan prepare(const std::string& path, const std::string& perturbation = {}, const std::string& stack = {});

/// The same for what a plan file holds: a pipe can be read only once.
PreparedPlan prepare_text(const std::string& text, const std::string& path, const std::string& stack = {});

/// The stack that --stack names; nothing where it is empty. Throws ConfigError.
std::optional<StackChoice> chosen_stack(const std::string& stack);

/// The cluster of a plan. `cost_table`, when not empty, is a file that `measure` wrote; it must describe the plan's devices, a
/// processor's in the type that the plan computes in. Throws ConfigError or InfeasibleError.
std::shared_ptr<const Topology> topology_of(const Plan& plan, const std::string& cost_table);

/// Says where this machine's own table was measured in another type than the plan computes in, so that it does not count.
void tell_other_type(const Plan& plan, const Topology& topology);

/// The measured table that a prediction took times from; empty where all are computed from facts.
std::string measured_table(const Plan& plan, const Topology& topology, const Prediction& prediction);

/// `prediction.timeline` with every lane's planned memory filled in. Throws ContractError when there is no timeline.
Timeline timeline_of(const Prediction& prediction);

/// Runs `work`, adding `file` to the problems of a refusal that names no file.
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
