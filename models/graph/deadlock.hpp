#pragma once
// Runs a graph without time, to see whether every task can ever start.

#include <optional>
#include <string>

#include "models/graph/task_graph.hpp"

namespace tandem {

/// Who works the streams.
enum class Host : std::uint8_t {
  launches,    ///< streams are independent; communication is a rendezvous of stream heads
  starts_in_order,  ///< the same, but a communication starts only when every one issued before it on its rank has started
  computes,    ///< the host does compute, tensor and data tasks itself in issue order; sends and receives are posted in order
  serialised,  ///< everything, transfers too, one after the other in issue order
};

/// Stages that hold the word matrix, and so meet in the embedding group: those with a parameter of its name, or (a graph
/// without parameters) the first and the last.
std::vector<std::size_t> word_stages(const TaskGraph& graph);
/// Stages that hold a table of learned positions, which t5's meet in the position group.
std::vector<std::size_t> position_stages(const TaskGraph& graph);

/// Nothing when every task of every stage runs; else one line for each stage naming the tasks that wait and for what.
std::optional<std::string> find_deadlock(const TaskGraph& graph, Host host);

}  // namespace tandem
