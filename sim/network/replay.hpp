#pragma once
// Replays the routing of a run on a graph of dropless experts. Templates whose sizes follow the routing are copied for every layer
// and micro-batch, so that durations and exchanges may differ by instance and rank.

#include <cstdint>
#include <span>
#include <vector>

#include "models/graph/routing.hpp"
#include "models/graph/task_graph.hpp"

namespace tandem::sim {

/// Number of rows that the members of a group exchange, by their indices in it.
struct ExchangedRows {
  std::int64_t members = 0, row_bytes = 0;
  std::vector<std::int64_t> of;   ///< rows by sender, then receiver
  std::int64_t rows(std::int32_t from, std::int32_t to) const { return of[static_cast<std::size_t>(from * members + to)]; }
  /// Returns an exchange of equal shares in which every member sends as much as the busiest one sends or receives here.
  Op even(const Op& op) const;
};

class Replay {
 public:
  /// `routing` must outlive the replay.
  Replay(const TaskGraph& graph, const Routing& routing);

  const TaskGraph& graph() const { return graph_; }
  const Routing& routing() const { return routing_; }
  /// Returns an operation of template `t` with the sizes it has on `rank`. No rows count as one, because the kernel is launched.
  Op timed(Rank rank, std::size_t t, const Op& op) const;
  /// Rows that an exchange of template `t` moves between `members`.
  ExchangedRows exchanged(std::size_t t, const Op& op, std::span<const Rank> members) const;
  /// By rank, for Options::marks: equal if the ranks' experts get equal numbers of rows in every layer and micro-batch.
  std::vector<std::uint64_t> marks() const;

 private:
  const Routing& routing_;
  TaskGraph graph_;
  std::vector<Instance> of_template_;  ///< by template: layer and micro-batch of a copy; layer -1: no copy
};

}  // namespace tandem::sim
