#include "sim/result/lanes.hpp"

#include <algorithm>

namespace tandem::sim {
namespace {

/// Durations of computations alone, taken from the cost model once for every task of a template.
class AloneTimes {
 public:
  AloneTimes(const Setup& setup, Rank rank) : setup_(setup), rank_(rank), times_(setup.graph.templates.size()) {}

  std::int64_t of(const Instance& instance, std::uint16_t task) {
    auto& times = times_[instance.tmpl.index()];
    const auto& tasks = setup_.graph.of(instance).tasks;
    if (times.empty())
      for (const Task& t : tasks)
        times.push_back(is_communication(t.op) ? -1 : setup_.duration(rank_, instance.tmpl.index(), t).ps());
    return times[task];
  }

 private:
  const Setup& setup_;
  Rank rank_;
  std::vector<std::vector<std::int64_t>> times_;
};

}  // namespace

Lane make_lane(const SimulatedStep& simulated, const Setup& setup, std::size_t role) {
  const Program& program = setup.graph.program(simulated.roles[role].stage);
  const Reader reader(simulated, role);
  // Ranks of one core are slowed together while both compute. Their operating system lets one run at a time, so that is
  // how it is recorded: first the wait for the core, then the computation at its own speed.
  const bool waits_for_core = setup.topology.device().synchronous && setup.topology.ranks_per_device() > 1;
  const Rank rank(simulated.roles[role].ranks.front());
  AloneTimes alone(setup, rank);
  Lane lane;
  lane.coords = setup.mesh.coords(rank);
  lane.ranks = simulated.roles[role].ranks;
  lane.arena_bytes = program.memory.arena_bytes;
  if (setup.replay != nullptr) lane.routing = setup.replay->routing().of(rank);
  lane.spans.reserve(simulated.lane_program(role).tasks());
  for (std::uint32_t i = 0; i < program.instances.size(); ++i)
    for (std::uint16_t t = 0; t < setup.graph.of(program.instances[i]).tasks.size(); ++t) {
      TaskSpan h = reader.at(i, t);
      if (waits_for_core) {
        const std::int64_t time = alone.of(program.instances[i], t);
        if (time >= 0) h.started = std::max(h.started, h.ended - time);
      }
      lane.spans.push_back({i, t, Duration::picoseconds(reader.issued(i, t)), Duration::picoseconds(h.ready),
                            Duration::picoseconds(h.started), Duration::picoseconds(h.ended)});
    }
  return lane;
}

}  // namespace tandem::sim
