#pragma once
// What was simulated against what was done. The simulated side counts the tasks of its timeline by the graph's
// visitors; the executed side counts products as they were called, bytes as they were handed to the communicator, and
// what the allocator gave out.

#include <map>
#include <vector>

#include "exec/run.hpp"
#include "models/plan.hpp"
#include "models/task_graph.hpp"

namespace tandem::tests {

/// (instance, task), in some order.
using Order = std::vector<std::pair<std::uint32_t, std::uint16_t>>;

/// One rank's books, however they were kept.
struct Ledger {
  std::int64_t flops = 0, sent_bytes = 0, sends = 0, arena_bytes = 0;
  std::map<std::pair<CollectiveKind, Group>, std::pair<std::int64_t, std::int64_t>> collectives;  ///< calls, payload
  Order issue_order;
  std::vector<Order> stream_order{kStreams};
  bool operator==(const Ledger&) const = default;
};

/// By rank, from the timeline of one simulated step; counts are those of `steps` of them.
std::vector<Ledger> simulated_ledgers(const Plan& plan, const TaskGraph& graph, std::int64_t steps = 1);
/// By rank, orders of the last step; checks that no rank reached beyond its arena.
std::vector<Ledger> executed_ledgers(const exec::RunResult& result);
/// Whether a rank multiplies what was planned for it, or all ranks together do (dropless experts on several ranks).
enum class Rows : std::uint8_t { planned, shared_out };

/// Checks each part of each rank's books by itself, so that a failure says which.
void check_same_books(const std::vector<Ledger>& done, const std::vector<Ledger>& predicted, Rows rows = Rows::planned);

}  // namespace tandem::tests
