// Which elements of which parameters one rank updates.

#include <algorithm>

#include "models/graph/owners.hpp"

namespace tandem {
namespace {

/// The elements [begin, end) of the flat buffers that the rank holds of a unit.
struct Part {
  std::int64_t begin, end;
};

Part part_of(const ShardUnit& unit, const ShardCoords& seat) {
  const std::int64_t index = unit.replication == Replication::expert ? seat.expert_shard : seat.shard;
  const std::int64_t begin = unit.offset + (unit.shards > 1 ? index * unit.shard_elements() : 0);
  return {begin, begin + unit.shard_elements()};
}

/// Whether this rank's copy is the one that norms count: of all ranks that hold the same elements, one.
bool counts(const Param& p, const ShardUnit& unit, const ShardCoords& seat) {
  if (!p.in_norm || !p.counts_on(seat.share_of(p))) return false;
  if (!seat.norm_over_world) return true;
  if (p.replication == Replication::expert) return unit.shards > 1 ? seat.expert_replica == 0 : seat.expert_data == 0;
  return unit.shards > 1 ? seat.replica == 0 : seat.data == 0;
}

/// The whole parameters that the rank owns.
std::vector<ParamPiece> owned_pieces(const Program& program, const Ownership& owners, const ShardCoords& seat) {
  std::vector<ParamPiece> pieces;
  for (const OwnedPart& part : owners.parts) {
    const ShardUnit& unit = program.units[static_cast<std::size_t>(part.unit)];
    if (part.owner != (unit.replication == Replication::expert ? seat.expert_shard : seat.shard)) continue;
    const Param& p = program.params[static_cast<std::size_t>(part.param)];
    const std::int64_t used = std::min(part.count, p.used(seat.share_of(p)) - part.first), at = p.offset + part.first;
    if (used > 0) pieces.push_back({&p, part.first, used, at, at, part.state, counts(p, unit, seat), part.state - part.second});
  }
  return pieces;
}

}  // namespace

std::vector<ParamPiece> param_pieces(const Program& program, const ShardCoords& seat, bool frozen) {
  if (const Ownership owners = ownership(program.params, program.units); !owners.parts.empty())
    return owned_pieces(program, owners, seat);
  std::vector<ParamPiece> pieces;
  std::int64_t unsquared = 0;
  auto p = program.params.begin();
  for (const ShardUnit& unit : program.units) {
    if (unit.frozen && !frozen) break;  // frozen units come last
    const Part part = part_of(unit, seat);
    for (; p != program.params.end() && p->offset < unit.offset + unit.elements; ++p) {
      const std::int64_t begin = std::max(part.begin, p->offset);
      const std::int64_t end = std::min(part.end, p->offset + p->used(seat.share_of(*p)));
      if (begin >= end) continue;
      const std::int64_t in_shard = unit.shard_offset + begin - part.begin;
      pieces.push_back({&*p, begin - p->offset, end - begin, program.gradients_sharded ? in_shard : begin,
                        program.weights_sharded ? in_shard : begin, in_shard, counts(*p, unit, seat), unsquared});
      if (p->matrices.any()) unsquared += end - begin;
    }
  }
  return pieces;
}

}  // namespace tandem
