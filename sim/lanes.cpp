#include "sim/lanes.hpp"

namespace tandem::sim {

Lane make_lane(const Play& play, const Scene& scene, std::size_t role) {
  const Program& program = scene.graph.program(play.roles[role].stage);
  const Reader reader(play, role);
  Lane lane;
  lane.coords = scene.mesh.coords(Rank(play.roles[role].ranks.front()));
  lane.ranks = play.roles[role].ranks;
  lane.arena_bytes = program.memory.arena_bytes;
  lane.spans.reserve(play.itinerary(role).tasks());
  for (std::uint32_t i = 0; i < program.instances.size(); ++i)
    for (std::uint16_t t = 0; t < scene.graph.of(program.instances[i]).tasks.size(); ++t) {
      const Happening h = reader.at(i, t);
      lane.spans.push_back({i, t, Duration::picoseconds(h.issued), Duration::picoseconds(h.ready),
                            Duration::picoseconds(h.started), Duration::picoseconds(h.ended)});
    }
  return lane;
}

}  // namespace tandem::sim
