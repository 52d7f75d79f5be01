#pragma once
// A graph of dropless experts with the rows that a run had: templates whose sizes follow the routing are copied for every layer and
// micro-batch, so that durations and exchanges may differ from instance to instance and from rank to rank.

#include <cstdint>
#include <span>
#include <vector>

#include "models/graph/routing.hpp"
#include "models/graph/task_graph.hpp"

namespace tandem::sim {

/// Rows of one exchange between the members of a group, by their places in it.
struct ExchangedRows {
  std::int64_t members = 0, row_bytes = 0;
  std::vector<std::int64_t> of;   ///< by sender, then receiver
  std::int64_t rows(std::int32_t from, std::int32_t to) const { return of[static_cast<std::size_t>(from * members + to)]; }
  /// The exchange of equal shares in which every member sends what the busiest one sends or receives here.
  Op even(const Op& op) const;
};

class Replay {
 public:
  /// `routing` outlives the replay.
  Replay(const TaskGraph& graph, const Routing& routing);

  const TaskGraph& graph() const { return graph_; }
  const Routing& routing() const { return routing_; }
  /// An operation of template `t` as `rank` does it, for timing: of no rows as of one, for its kernel is launched all the same.
  Op timed(Rank rank, std::size_t t, const Op& op) const;
  /// Rows that an exchange of template `t` moves between `members`.
  ExchangedRows exchanged(std::size_t t, const Op& op, std::span<const Rank> members) const;
  /// Equal for ranks whose experts get as many rows everywhere.
  std::vector<std::uint64_t> marks() const;

 private:
  const Routing& routing_;
  TaskGraph graph_;
  std::vector<Instance> of_template_;  ///< the layer and micro-batch that a copy is for; layer -1: of all
};

}  // namespace tandem::sim
