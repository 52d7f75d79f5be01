#pragma once
// What happened to a role, task by task, whatever way the engine took.

#include <cstdint>
#include <vector>

#include "sim/play.hpp"

namespace tandem::sim::test {

struct TaskTimes {
  std::vector<std::int64_t> issued, ready, started, ended;  ///< ps, in order of issue
  bool operator==(const TaskTimes&) const = default;
};

inline TaskTimes times_of(const Play& play, const TaskGraph& graph, std::size_t role) {
  TaskTimes out;
  const Reader reader(play, role);
  const Program& program = graph.program(play.roles[role].stage);
  for (std::uint32_t i = 0; i < program.instances.size(); ++i)
    for (std::uint16_t t = 0; t < graph.of(program.instances[i]).tasks.size(); ++t) {
      const Happening h = reader.at(i, t);
      out.issued.push_back(h.issued);
      out.ready.push_back(h.ready);
      out.started.push_back(h.started);
      out.ended.push_back(h.ended);
    }
  return out;
}

}  // namespace tandem::sim::test
