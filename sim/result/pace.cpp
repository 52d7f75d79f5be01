#include "sim/result/pace.hpp"

#include <algorithm>

#include "sim/engine/play.hpp"
#include "sim/engine/succession.hpp"

namespace tandem::sim {
namespace {

/// When each role has ended step `step`, picoseconds.
std::vector<std::int64_t> ends_of(const Play& play, const TaskGraph& one, std::int64_t step) {
  std::vector<std::int64_t> ends;
  for (std::size_t r = 0; r < play.roles.size(); ++r) {
    const Reader reader(play, r);
    std::int64_t end = 0;
    for (const Place& p : last_tasks(one, one.program(play.roles[r].stage), step))
      end = std::max(end, reader.ended(p.instance, p.task));
    ends.push_back(end);
  }
  return ends;
}

std::int64_t latest(const std::vector<std::int64_t>& ends) { return *std::max_element(ends.begin(), ends.end()); }

}  // namespace

Pace pace(const Scene& scene, const Manner& manner) {
  const TaskGraph graph = in_succession(scene.graph, kSteps);
  const Play play = sim::play({graph, scene.mesh, scene.topology, scene.cost, scene.replay}, manner);
  const std::vector<std::int64_t> before = ends_of(play, scene.graph, kSteps - 3), ends = ends_of(play, scene.graph, kSteps - 2);
  Pace out;
  out.step_time = Duration::picoseconds(latest(ends) - latest(before));
  out.roles.resize(static_cast<std::size_t>(scene.mesh.world_size()));
  for (std::size_t r = 0; r < play.roles.size(); ++r)
    for (const std::int32_t rank : play.roles[r].ranks) out.roles[static_cast<std::size_t>(rank)] = r;
  out.breakdowns = break_down(play, graph, ends, out.step_time.ps());
  return out;
}

Duration step_time(const Scene& scene, const Manner& manner) {
  return manner.steps_overlap ? pace(scene, manner).step_time : play(scene, manner).step_time;
}

}  // namespace tandem::sim
