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

/// A rank's states and their layout. (States: parameters, gradients, optimizer states.)
struct RankState {
  const Program* program = nullptr;
  ShardCoords seat;
  std::int64_t expert_rank = 0, expert_ranks = 1;  ///< in its expert group
  Memory* arena = nullptr;                         ///< the memory that holds the states; nullptr: it is in another process
  const StateLayout* offloaded = nullptr;          ///< layout of `arena`, then a StateMemory; nullptr: nothing is offloaded
};

RankState rank_state(const Program& program, const Mesh& mesh, Rank rank, Memory* arena);

/// The buffer of quantized parameters (Param::quantized).
inline constexpr std::string_view kQuantizedWeights = "quantized_weights";

/// Byte offset of the allocation `name` in the arena; -1 if the program has none.
std::int64_t state_offset(const Program& program, std::string_view name);
/// Byte offset of the buffer `name` in RankState::arena, whether it is offloaded or not; -1 if there is none.
std::int64_t state_offset(const RankState& rank, std::string_view name);

/// Maps the rank's share of a parameter to the whole parameter.
ShareMap share_map(const Param& p, const RankState& rank);

}  // namespace tandem::exec
