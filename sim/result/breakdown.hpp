#pragma once
// Breakdown of a role's step: every picosecond of its compute stream, from the start of the step to its end, has one
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

/// Kernels of computations outside of the update. Attention includes the products of a score matrix.
enum class Kernel : std::uint8_t { products, attention, other };
inline constexpr std::size_t kKernels = 3;

/// Picoseconds by Share. They add up exactly to the window: a step alone, or from one step's end to the next one's.
struct Breakdown {
  std::array<std::int64_t, kShares> ps{};
  std::array<std::int64_t, kKernels> kernel_ps{};  ///< Share::compute by Kernel
  std::int64_t credit_stall_ps = 0;  ///< idle time in which a sender was ready but no receive buffer was free

  std::int64_t operator[](Share s) const { return ps[static_cast<std::size_t>(s)]; }
};

/// Attributes the time between computations to what the next one waited for: a communication while it moved, the host while it
/// launched, the bubble while other roles were late. Time in which these waited for their own host's launches counts as launch.
Breakdown break_down(const SimulatedStep& simulated, const TaskGraph& graph, std::size_t role);
/// Returns the breakdowns of all roles.
std::vector<Breakdown> break_down(const SimulatedStep& simulated, const TaskGraph& graph);
/// Returns the breakdowns of `roles`, in their order.
std::vector<Breakdown> break_down(const SimulatedStep& simulated, const TaskGraph& graph, const std::vector<std::size_t>& roles);
/// By role: breaks down the `span` picoseconds before its `ends` instead of the whole step; shares add up to `span`.
std::vector<Breakdown> break_down(const SimulatedStep& simulated, const TaskGraph& graph, const std::vector<std::int64_t>& ends,
                                  std::int64_t span);

/// Converts to seconds, under the names of `simulate --json`.
TimeBreakdown in_seconds(const Breakdown& breakdown);
/// Share::compute in seconds: products, attention, other.
TimeBreakdown kernels_in_seconds(const Breakdown& breakdown);

}  // namespace tandem::sim
