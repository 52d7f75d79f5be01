#pragma once
// What happened to a role, task by task, whatever way the engine took.

#include <cstdint>
#include <vector>

#include "sim/engine/simulated_step.hpp"
#include "tests/catch.hpp"

namespace tandem::sim::test {

struct TaskTimes {
  std::vector<std::int64_t> issued, ready, started, ended;  ///< ps, in order of issue
  bool operator==(const TaskTimes&) const = default;
};

inline TaskTimes times_of(const SimulatedStep& simulated, const TaskGraph& graph, std::size_t role) {
  TaskTimes out;
  const Reader reader(simulated, role);
  const Program& program = graph.program(simulated.roles[role].stage);
  for (std::uint32_t i = 0; i < program.instances.size(); ++i)
    for (std::uint16_t t = 0; t < graph.of(program.instances[i]).tasks.size(); ++t) {
      const TaskSpan h = reader.at(i, t);
      out.issued.push_back(reader.issued(i, t));
      out.ready.push_back(h.ready);
      out.started.push_back(h.started);
      out.ended.push_back(h.ended);
    }
  return out;
}

/// Every task of every rank went alike in both plays; the second is unfolded.
inline void require_equal(const SimulatedStep& folded, const SimulatedStep& whole, const TaskGraph& graph) {
  REQUIRE(folded.step_time == whole.step_time);
  for (std::size_t r = 0; r < folded.roles.size(); ++r)
    for (const std::int32_t rank : folded.roles[r].ranks)
      REQUIRE(times_of(folded, graph, r) == times_of(whole, graph, static_cast<std::size_t>(rank)));
}

}  // namespace tandem::sim::test
