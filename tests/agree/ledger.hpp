#pragma once
// What was simulated against what was done. The simulated side counts the tasks of its timeline by the graph's
// visitors; the executed side counts products as they were called, bytes as they were handed to the communicator, and
// what the allocator gave out.

#include <map>
#include <vector>

#include "exec/run/run.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"

namespace tandem::tests {

/// (instance, task), in some order.
using Order = std::vector<std::pair<std::uint32_t, std::uint16_t>>;

/// One rank's books, however they were kept.
struct Ledger {
  std::int64_t flops = 0, sent_bytes = 0, sends = 0, arena_bytes = 0;
  std::map<std::pair<CollectiveKind, Group>, std::pair<std::int64_t, std::int64_t>> collectives;  ///< calls, payload
  std::int64_t rows_received = 0;  ///< bytes by all-to-alls of the expert group, gathers and scatters of the tensor group
  Order issue_order;
  std::vector<Order> stream_order{kStreams};
  bool operator==(const Ledger&) const = default;
};

/// By rank, from the timeline of one simulated step; counts are those of `steps` of them. With `routing` experts get the rows
/// that it says.
std::vector<Ledger> simulated_ledgers(const Plan& plan, const TaskGraph& graph, std::int64_t steps = 1,
                                      const Routing* routing = nullptr);
/// By rank, orders of the last step; checks that no rank reached beyond its arena.
std::vector<Ledger> executed_ledgers(const exec::RunResult& result);
/// Checks each part of each rank's books by itself, so that a failure says which. How many rows a rank's experts get is
/// known only when tokens have chosen: without a capacity FLOPs are those of a whole expert group, exactly, and with the
/// routing that the run left (`routed`) those of every rank, as are the bytes that it got.
void check_same_books(const Plan& plan, const std::vector<Ledger>& done, const std::vector<Ledger>& predicted,
                      bool routed = false);
/// Runs one step of a plan whose experts get unequal rows and simulates it with the routing that the step left: checks the books
/// of every rank. Returns the ranks whose FLOPs differ from an even share's.
std::int64_t check_replayed_books(const Plan& plan, const TaskGraph& graph);
/// Trains a plan in fp64 and checks losses, gradients and their norms against the run `one` of one rank, to 1e-12 (sums in another
/// order), and that both performers keep the same books.
void check_trains_like(const exec::RunResult& one, const Plan& plan);

}  // namespace tandem::tests
