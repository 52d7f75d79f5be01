#pragma once
// Maps a rank's share of a parameter to the whole parameter.

#include <cstdint>
#include <limits>

#include "models/graph/task_graph.hpp"

namespace tandem::exec {

/// Maps indices of a rank's share of a parameter to indices of the whole parameter. Both are row-major.
class ShareMap {
 public:
  ShareMap() = default;
  /// For a parameter that is not sharded.
  explicit ShareMap(const Param& p) : ShareMap(p, 0, 0, 1) {}
  /// `share`: the rank's index among the parameter's shares. `expert_rank`: its index among `expert_ranks` expert-parallel ranks.
  ShareMap(const Param& p, std::int64_t share, std::int64_t expert_rank, std::int64_t expert_ranks)
      : cols_(p.cols),
        full_cols_(p.full_cols),
        row0_(p.shard_dim == 0 ? p.share(share) : 0),
        col0_(p.shard_dim == 1 ? p.share(share) : 0),
        expert_rows_(p.expert_rows) {
    if (expert_rows_ == 0) return;
    const std::int64_t here = p.rows / expert_rows_;
    expert0_ = expert_rank * here;
    full_expert_rows_ = p.full_rows / (here * expert_ranks);
  }

  constexpr std::int64_t full_index(std::int64_t local) const { return row(local / cols_) * full_cols_ + col0_ + local % cols_; }
  /// Number of elements from `local` on that are also contiguous in the whole parameter.
  std::int64_t run(std::int64_t local) const {
    const bool rows_follow = cols_ == full_cols_ && expert_rows_ == 0;
    return rows_follow ? std::numeric_limits<std::int64_t>::max() : cols_ - local % cols_;
  }
  /// Number of the share's rows, from the row of `local` on, that are also adjacent rows in the whole parameter.
  std::int64_t rows_below(std::int64_t local) const {
    return expert_rows_ == 0 ? std::numeric_limits<std::int64_t>::max() : expert_rows_ - local / cols_ % expert_rows_;
  }

 private:
  /// Experts are stacked along the rows. Each expert is cut over the tensor ranks separately.
  constexpr std::int64_t row(std::int64_t r) const {
    return expert_rows_ == 0 ? row0_ + r : (expert0_ + r / expert_rows_) * full_expert_rows_ + row0_ + r % expert_rows_;
  }

  std::int64_t cols_ = 1, full_cols_ = 1, row0_ = 0, col0_ = 0, expert_rows_ = 0, full_expert_rows_ = 0, expert0_ = 0;
};

}  // namespace tandem::exec
