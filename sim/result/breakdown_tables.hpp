#pragma once
// Look-up tables for the breakdowns of all roles.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/simulated_step.hpp"
#include "sim/result/breakdown.hpp"

namespace tandem::sim {

/// Tables of a step and its graph, made when needed. One thread at a time may use them.
class BreakdownTables {
 public:
  BreakdownTables(const SimulatedStep& simulated, const TaskGraph& graph);

  /// Facts of a pattern, shared by all instances that it simulates.
  struct Way {
    std::uint16_t first;                           ///< first computation
    bool closed;                                   ///< Pattern::closed
    std::int64_t first_ended, ended;               ///< ps from the start: end of the first computation, and of the last
    std::array<std::optional<Breakdown>, 2> rest;  ///< after the first one; of the optimizer's: [1]
  };
  Way& way(PatternId id) { return ways_[id]; }

  /// By instance of a program: its first edge, and the total.
  const std::vector<std::uint32_t>& first_edges(const Program& program);
  /// The edges of a program from tasks that the host waits for before it issues more; only the first edge of each such task.
  const std::vector<Edge>& host_waits(const Program& program);
  bool host_waits(const Program& program, const Edge& e) const {
    return host_waits_[program.instances[e.from_instance].tmpl.index()];
  }
  std::size_t lane(const Task& task) const { return lanes_[static_cast<std::size_t>(task.stream)]; }
  /// The last task of a template on a lane; -1: there is none.
  std::int32_t last_task(TemplateId t, std::size_t lane) const { return last_task_[t.index()][lane]; }

 private:
  std::vector<Way> ways_;                                ///< by pattern
  std::vector<std::vector<std::uint32_t>> first_edge_;   ///< by stage
  std::vector<std::optional<std::vector<Edge>>> waits_;  ///< by stage
  std::vector<std::array<std::int32_t, kLanes>> last_task_;  ///< by template
  std::vector<bool> host_waits_;                             ///< by template
  LaneOfStream lanes_;
};

}  // namespace tandem::sim
