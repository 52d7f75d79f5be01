#pragma once
// Runs a graph without time, to see whether every task can ever start.

#include <optional>
#include <string>

#include "models/graph/task_graph.hpp"

namespace tandem {

/// How the host issues tasks to streams.
enum class Host : std::uint8_t {
  launches,    ///< streams are independent; communication is a rendezvous of stream heads
  starts_in_order,  ///< as `launches`, but a communication starts only after all earlier ones of its rank have started
  computes,    ///< the host runs compute, tensor and data tasks in issue order; sends and receives are posted in order
  serialised,  ///< all tasks, transfers too, run one after the other in issue order
};

/// Stages in the embedding group. These hold the word matrix: they have a parameter
/// of its name or, in a graph without parameters, are the first and last stage.
std::vector<std::size_t> word_stages(const TaskGraph& graph);
/// Stages in the position group: in T5 those with a table of learned positions.
std::vector<std::size_t> position_stages(const TaskGraph& graph);

/// Returns nothing when every task of every stage runs. Else returns one line for each stage: its waiting tasks and their causes.
std::optional<std::string> find_deadlock(const TaskGraph& graph, Host host);

}  // namespace tandem
