#include "exec/state/param_layout.hpp"

namespace tandem::exec {

RankState rank_state(const Program& program, const Mesh& mesh, Rank rank, Memory* arena) {
  const auto at = [&](Group g) { return mesh.position(g, rank); };
  const ShardSeat seat{mesh.coords(rank)[Axis::tp], at(Group::expert_tensor), at(Group::shard), at(Group::replica),
                       at(Group::expert_data),      at(Group::expert_shard),  at(Group::expert_replica),
                       at(Group::data),             program.norm_over_world};
  return {&program, seat, at(Group::expert), mesh.group_size(Group::expert), arena};
}

ShareMap::ShareMap(const Param& p, const RankState& rank)
    : cols_(p.cols),
      full_cols_(p.full_cols),
      row0_(p.shard_dim == 0 ? p.share(rank.seat.share_of(p)) : 0),
      col0_(p.shard_dim == 1 ? p.share(rank.seat.share_of(p)) : 0),
      expert_rows_(p.expert_rows) {
  if (expert_rows_ == 0) return;
  const std::int64_t here = p.rows / expert_rows_;
  expert0_ = rank.expert_rank * here;
  full_expert_rows_ = p.full_rows / (here * rank.expert_ranks);
}

std::int64_t state_offset(const Program& program, std::string_view name) {
  for (const auto& a : program.memory.allocations)
    if (a.name == name) return a.offset;
  return -1;
}

}  // namespace tandem::exec
