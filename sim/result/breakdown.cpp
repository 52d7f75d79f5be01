#include "sim/result/breakdown.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "models/base/threads.hpp"
#include "sim/result/last_arrivals.hpp"
#include "sim/result/role_breakdown.hpp"

namespace tandem::sim {
namespace {

/// When the last host has launched all operations, if hosts run ahead. The step's end if hosts wait for their device or compute
/// themselves.
std::int64_t launched(const SimulatedStep& simulated) {
  std::uint64_t operations = 0;
  for (const LaneProgram& p : simulated.lane_programs) {
    if (simulated.host.synchronous || p.host_waits) return simulated.step_time.ps();
    operations = std::max(operations, p.starts.back().host);
  }
  return static_cast<std::int64_t>(operations) * simulated.host.launch.ps();
}

/// All roles of a step. A role's breakdown asks others which part of its waits their hosts launched.
class AllRoles final : public OtherRoles {
 public:
  AllRoles(const SimulatedStep& simulated, const TaskGraph& graph)
      : simulated_(simulated),
        graph_(graph),
        tables_(simulated, graph),
        arrivals_(simulated),
        launched_(launched(simulated)),
        roles_(simulated.roles.size()) {}

  RoleBreakdown& of(std::size_t role) {
    if (!roles_[role]) roles_[role] = std::make_unique<RoleBreakdown>(simulated_, graph_, role, tables_, *this);
    return *roles_[role];
  }

  std::int64_t launching_before(std::size_t role, Place w, std::int64_t from, std::int64_t to, Window window) override {
    if (from >= launched_) return 0;
    const std::optional<LastArrival> last = arrivals_.of(role, w);
    return last ? of(last->role).launching(from, to, last->at, {std::max(from, window.from), std::min(to, window.to)}) : 0;
  }

  std::int64_t launching_at_end(std::int64_t from, std::int64_t to) override {
    if (from >= launched_) return 0;
    for (std::size_t role = 0; role < roles_.size(); ++role)
      if (simulated_.records[role].end.ps() == to) return of(role).launching_to_end(from);
    return 0;
  }

 private:
  const SimulatedStep& simulated_;
  const TaskGraph& graph_;
  BreakdownTables tables_;
  LastArrivals arrivals_;
  std::int64_t launched_;                             ///< ps; no host launches from then on
  std::vector<std::unique_ptr<RoleBreakdown>> roles_;  ///< made when needed
};

/// Breakdowns of the roles `asked`, each of the window that `window_of` returns.
template <class WindowOf>
std::vector<Breakdown> attribute(const SimulatedStep& simulated, const TaskGraph& graph, const std::vector<std::size_t>& asked,
                                 const WindowOf& window_of) {
  constexpr std::size_t kWorthAThread = 256;
  std::vector<Breakdown> out(asked.size());
  const std::size_t parts = std::clamp<std::size_t>(out.size() / kWorthAThread, 1, static_cast<std::size_t>(all_cores()));
  // Neighbouring roles ask each other most, so threads need not share what they found.
  for_each_index(parts, {.most = static_cast<int>(parts)}, [&](std::size_t part) {
    AllRoles roles(simulated, graph);
    for (std::size_t i = out.size() * part / parts; i < out.size() * (part + 1) / parts; ++i)
      out[i] = roles.of(asked[i]).run(window_of(asked[i]));
  });
  return out;
}

std::vector<std::size_t> all_roles(const SimulatedStep& simulated) {
  std::vector<std::size_t> out(simulated.roles.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  return out;
}

}  // namespace

Breakdown break_down(const SimulatedStep& simulated, const TaskGraph& graph, std::size_t role) {
  return break_down(simulated, graph, std::vector<std::size_t>{role}).front();
}

std::vector<Breakdown> break_down(const SimulatedStep& simulated, const TaskGraph& graph) {
  return break_down(simulated, graph, all_roles(simulated));
}

std::vector<Breakdown> break_down(const SimulatedStep& simulated, const TaskGraph& graph, const std::vector<std::size_t>& roles) {
  return attribute(simulated, graph, roles, [&](std::size_t) { return Window{0, simulated.step_time.ps()}; });
}

std::vector<Breakdown> break_down(const SimulatedStep& simulated, const TaskGraph& graph, const std::vector<std::int64_t>& ends,
                                  std::int64_t span) {
  return attribute(simulated, graph, all_roles(simulated), [&](std::size_t role) { return Window{ends[role] - span, ends[role]}; });
}

TimeBreakdown in_seconds(const Breakdown& breakdown) {
  constexpr const char* names[kShares] = {"compute",   "tensor_comm", "context_comm", "expert_comm", "pipeline_comm",
                                          "data_comm", "optimizer",   "bubble",       "launch",      "host_copy"};
  TimeBreakdown out;
  for (std::size_t i = 0; i < kShares; ++i) out[names[i]] = static_cast<double>(breakdown.ps[i]) * 1e-12;
  return out;
}

TimeBreakdown kernels_in_seconds(const Breakdown& breakdown) {
  constexpr const char* names[kKernels] = {"products", "attention", "other"};
  TimeBreakdown out;
  for (std::size_t i = 0; i < kKernels; ++i) out[names[i]] = static_cast<double>(breakdown.kernel_ps[i]) * 1e-12;
  return out;
}

}  // namespace tandem::sim
