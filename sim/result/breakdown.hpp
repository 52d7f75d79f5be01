#pragma once
// Where a role's step went: every picosecond of its compute stream, from the start of the step to its end, has one
// name.

#include <array>
#include <cstdint>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "reports/prediction/prediction.hpp"
#include "sim/engine/simulated_step.hpp"

namespace tandem::sim {

enum class Share : std::uint8_t {
  compute, tensor_comm, context_comm, expert_comm, pipeline_comm, data_comm, optimizer, bubble, launch, host_copy
};
inline constexpr std::size_t kShares = 10;

/// Picoseconds by Share; they add up to the time that was asked for exactly: a step alone, or from one step's end to the next one's.
struct Breakdown {
  std::array<std::int64_t, kShares> ps{};
  std::int64_t credit_stall_ps = 0;  ///< idle time for which a sender was ready and a receive buffer was not

  std::int64_t operator[](Share s) const { return ps[static_cast<std::size_t>(s)]; }
};

/// Attributes what lies between computations to what the next one waited for: a communication while it moved, the host while it
/// launched, the bubble while it waited for others. Where these in turn waited for their host's launches, it is the launch.
Breakdown break_down(const SimulatedStep& simulated, const TaskGraph& graph, std::size_t role);
/// Of every role.
std::vector<Breakdown> break_down(const SimulatedStep& simulated, const TaskGraph& graph);
/// By entry of `roles`.
std::vector<Breakdown> break_down(const SimulatedStep& simulated, const TaskGraph& graph, const std::vector<std::size_t>& roles);
/// Of `span` picoseconds of every role before `ends`, by role, instead of the whole step; they add up to `span`.
std::vector<Breakdown> break_down(const SimulatedStep& simulated, const TaskGraph& graph, const std::vector<std::int64_t>& ends,
                                  std::int64_t span);

/// In seconds, under the names of `simulate --json`.
TimeBreakdown in_seconds(const Breakdown& breakdown);

}  // namespace tandem::sim
