#pragma once
// The cause that let a task of a role start: the end of another task, or the host.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "sim/engine/simulated_step.hpp"
#include "sim/result/breakdown_tables.hpp"

namespace tandem::sim {

/// Finds the causes of one role's tasks. References must outlive it.
class RoleCauses {
 public:
  RoleCauses(const SimulatedStep& simulated, const TaskGraph& graph, std::size_t role, BreakdownTables& tables);

  const Program& program() const { return program_; }
  const LaneProgram& lane_program() const { return lane_program_; }
  const Reader& reader() const { return reader_; }
  const Task& task(Place w) const { return graph_.of(program_.instances[w.instance]).tasks[w.task]; }
  TaskSpan at(Place w) const { return reader_.at(w.instance, w.task); }
  std::int64_t ended(Place w) const { return reader_.ended(w.instance, w.task); }
  std::int64_t issued(Place w) const { return reader_.issued(w.instance, w.task); }
  std::size_t lane(Place w) const { return tables_.lane(task(w)); }

  /// The dependency, or the task before on the lane, that ended at `hi` and so let `w` start.
  std::optional<Place> of(Place w, std::int64_t hi) const;
  /// The task that the host waited for longest before it issued `w` at `issued`. Time after that task's end is launching, time
  /// before is not.
  std::optional<Place> host_waited_for(Place w, std::int64_t issued) const;
  /// Whether a receive buffer that became free at `at` let `w` start.
  bool credited(Place w, std::int64_t at) const;
  /// The task that ended last; the first issued of several.
  Place last() const;

 private:
  struct Wait {
    std::int64_t ended = -1;
    Place on{0, 0};
  };
  /// The longest wait of the host, from `instance` on.
  struct Waited {
    std::uint32_t instance;
    Wait longest;
  };

  static Wait later(const Wait& a, const Wait& b) { return b.ended > a.ended ? b : a; }
  Wait wait_of(const Edge& e) const { return {ended({e.from_instance, e.from_task}), {e.from_instance, e.from_task}}; }
  std::vector<Waited> host_waits() const;
  std::span<const Edge> edges_into(std::uint32_t instance) const;
  std::span<const Edge> edges_to(Place w) const;
  std::optional<Place> previous(Place w) const;
  std::optional<Place> before(std::uint32_t instance, std::size_t lane) const;

  const SimulatedStep& simulated_;
  const TaskGraph& graph_;
  const Program& program_;
  const LaneProgram& lane_program_;
  Reader reader_;
  BreakdownTables& tables_;
  const std::vector<std::uint32_t>& first_edges_;
  const std::vector<Waited> waits_;
};

}  // namespace tandem::sim
