#pragma once
// Where a rank's share of a parameter lies: in the whole parameter, and in the rank's buffers.

#include <cstdint>
#include <string_view>

#include "exec/backend/memory.hpp"
#include "exec/backend/share_map.hpp"
#include "exec/state/offloaded.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/mesh.hpp"

namespace tandem::exec {

/// A rank as the keeper of its stage's parameters.
struct RankState {
  const Program* program = nullptr;
  ShardCoords seat;
  std::int64_t expert_rank = 0, expert_ranks = 1;  ///< in its expert group
  Memory* arena = nullptr;                         ///< nothing: another process has it
  const StateLayout* offloaded = nullptr;          ///< of `arena`, which then is a StateMemory; nothing: no state is offloaded
};

RankState rank_state(const Program& program, const Mesh& mesh, Rank rank, Memory* arena);

/// Byte offset into the arena of the allocation `name`, -1 where the program has none.
std::int64_t state_offset(const Program& program, std::string_view name);
/// The same of a rank, some of whose states may be offloaded.
std::int64_t state_offset(const RankState& rank, std::string_view name);

/// Of the rank's share.
ShareMap share_map(const Param& p, const RankState& rank);

}  // namespace tandem::exec
