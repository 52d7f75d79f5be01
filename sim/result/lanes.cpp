#include "sim/result/lanes.hpp"

#include <algorithm>

namespace tandem::sim {
namespace {

/// What computations take alone, asked of the cost model once for every task of a template.
class AloneTimes {
 public:
  AloneTimes(const Scene& scene, Rank rank) : scene_(scene), rank_(rank), times_(scene.graph.templates.size()) {}

  std::int64_t of(const Instance& instance, std::uint16_t task) {
    auto& times = times_[instance.tmpl.index()];
    const auto& tasks = scene_.graph.of(instance).tasks;
    if (times.empty())
      for (const Task& t : tasks)
        times.push_back(is_communication(t.op) ? -1 : scene_.duration(rank_, instance.tmpl.index(), t).ps());
    return times[task];
  }

 private:
  const Scene& scene_;
  Rank rank_;
  std::vector<std::vector<std::int64_t>> times_;
};

}  // namespace

Lane make_lane(const Play& play, const Scene& scene, std::size_t role) {
  const Program& program = scene.graph.program(play.roles[role].stage);
  const Reader reader(play, role);
  // Ranks of one core are slowed together while both compute. Their operating system lets one run at a time, so that is
  // how it is recorded: first the wait for the core, then the computation at its own speed.
  const bool waits_for_core = scene.topology.device().synchronous && scene.topology.ranks_per_device() > 1;
  const Rank rank(play.roles[role].ranks.front());
  AloneTimes alone(scene, rank);
  Lane lane;
  lane.coords = scene.mesh.coords(rank);
  lane.ranks = play.roles[role].ranks;
  lane.arena_bytes = program.memory.arena_bytes;
  if (scene.replay != nullptr) lane.routing = scene.replay->routing().of(rank);
  lane.spans.reserve(play.itinerary(role).tasks());
  for (std::uint32_t i = 0; i < program.instances.size(); ++i)
    for (std::uint16_t t = 0; t < scene.graph.of(program.instances[i]).tasks.size(); ++t) {
      Happening h = reader.at(i, t);
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
