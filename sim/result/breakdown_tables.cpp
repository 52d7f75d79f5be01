#include "sim/result/breakdown_tables.hpp"

#include <numeric>
#include <utility>

namespace tandem::sim {

BreakdownTables::BreakdownTables(const SimulatedStep& simulated, const TaskGraph& graph)
    : first_edge_(graph.programs.size()), waits_(graph.programs.size()), lanes_(lanes_of(simulated.host.synchronous)) {
  ways_.reserve(simulated.patterns.size());
  for (PatternId id = 0; id < simulated.patterns.size(); ++id) {
    const Pattern& p = simulated.patterns[id];
    const std::uint16_t first = simulated.patterns.of(p.timed).first[0];
    ways_.push_back({first, p.closed, p.ended[first], p.free[0], {}});
  }
  for (const Template& t : graph.templates) {
    host_waits_.push_back(t.host_waits);
    last_task_.emplace_back().fill(-1);
    for (std::size_t i = 0; i < t.tasks.size(); ++i) last_task_.back()[lane(t.tasks[i])] = static_cast<std::int32_t>(i);
  }
}

const std::vector<std::uint32_t>& BreakdownTables::first_edges(const Program& program) {
  std::vector<std::uint32_t>& first = first_edge_[program.stage.index()];
  if (!first.empty()) return first;
  first.assign(program.instances.size() + 1, 0);
  for (const Edge& e : program.edges) ++first[e.to_instance + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  return first;
}

const std::vector<Edge>& BreakdownTables::host_waits(const Program& program) {
  std::optional<std::vector<Edge>>& waits = waits_[program.stage.index()];
  if (waits) return *waits;
  waits.emplace();
  std::vector<std::int32_t> noted(program.instances.size(), -1);  // task, by instance
  for (const Edge& e : program.edges)
    if (host_waits(program, e) && std::exchange(noted[e.from_instance], e.from_task) != e.from_task) waits->push_back(e);
  return *waits;
}

}  // namespace tandem::sim
