#include "experiments/tandem/training/host_memory.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/process/free_memory.hpp"
#include "models/base/error.hpp"
#include "models/plan/mesh.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

/// A single process has all ranks.
std::vector<Rank> ranks_here(const Mesh& mesh, const exec::World& world) {
  if (world.several()) return world.here();
  std::vector<Rank> all;
  for (std::int32_t r = 0; r < mesh.world_size(); ++r) all.emplace_back(r);
  return all;
}

}  // namespace

void require_host_memory(const Plan& plan, const TaskGraph& graph, const exec::World& world) {
  const std::optional<std::int64_t> left = exec::free_memory();
  if (!left) return;
  const Mesh mesh = make_mesh(plan);
  const std::vector<Rank> here = ranks_here(mesh, world);
  std::int64_t needed = 0;
  for (const Rank rank : here) needed += graph.program(StageId(mesh.coords(rank)[Axis::pp])).memory.arena_bytes.count();
  if (needed <= *left) return;
  const std::string ranks = here.size() == 1 ? "1 rank needs " : count_text(static_cast<std::int64_t>(here.size())) + " ranks need ";
  throw InfeasibleError(Problem{plan.file, "", "", ranks + bytes_text(needed) + " of memory, and this host has " + bytes_text(*left) + " free",
                                "use fewer data ranks, a smaller model or shorter sequences, or more hosts (--launch)"});
}

}  // namespace tandem::program
