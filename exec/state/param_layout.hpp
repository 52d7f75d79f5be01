#pragma once
// Where a rank's share of a parameter lies: in the whole parameter, and in the rank's buffers.

#include <cstdint>
#include <string_view>

#include "exec/backend/memory.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/mesh.hpp"

namespace tandem::exec {

/// A rank as the keeper of its stage's parameters.
struct RankState {
  const Program* program = nullptr;
  ShardSeat seat;
  std::int64_t expert_rank = 0, expert_ranks = 1;  ///< in its expert group
  Memory* arena = nullptr;
};

RankState rank_state(const Program& program, const Mesh& mesh, Rank rank, Memory* arena);

/// Byte offset into the arena of the allocation `name`, -1 where the program has none.
std::int64_t state_offset(const Program& program, std::string_view name);

/// From a rank's share of a parameter to the whole one, both row-major.
class ShareMap {
 public:
  ShareMap(const Param& p, const RankState& rank);
  std::int64_t full_index(std::int64_t local) const { return row(local / cols_) * full_cols_ + col0_ + local % cols_; }

 private:
  /// Experts are stacked along the rows, each cut over the tensor ranks by itself.
  std::int64_t row(std::int64_t r) const {
    return expert_rows_ == 0 ? row0_ + r : (expert0_ + r / expert_rows_) * full_expert_rows_ + row0_ + r % expert_rows_;
  }

  std::int64_t cols_, full_cols_, row0_, col0_, expert_rows_, full_expert_rows_ = 0, expert0_ = 0;
};

}  // namespace tandem::exec
