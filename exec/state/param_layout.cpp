#include "exec/state/param_layout.hpp"

namespace tandem::exec {

RankState rank_state(const Program& program, const Mesh& mesh, Rank rank, Memory* arena) {
  const auto at = [&](Group g) { return mesh.position(g, rank); };
  const ShardCoords seat{mesh.coords(rank)[Axis::tp], at(Group::expert_tensor), at(Group::shard), at(Group::replica),
                       at(Group::expert_data),      at(Group::expert_shard),  at(Group::expert_replica),
                       at(Group::data),             program.norm_over_world};
  return {&program, seat, at(Group::expert), mesh.group_size(Group::expert), arena, nullptr};
}

ShareMap share_map(const Param& p, const RankState& rank) {
  return {p, rank.seat.share_of(p), rank.expert_rank, rank.expert_ranks};
}

std::int64_t state_offset(const Program& program, std::string_view name) {
  for (const auto& a : program.memory.allocations)
    if (a.name == name) return a.offset;
  return -1;
}

std::int64_t state_offset(const RankState& rank, std::string_view name) {
  const std::int64_t offloaded = rank.offloaded != nullptr ? rank.offloaded->offset(name) : -1;
  return offloaded >= 0 ? offloaded : state_offset(*rank.program, name);
}

}  // namespace tandem::exec
