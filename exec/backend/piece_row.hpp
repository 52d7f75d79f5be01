#pragma once
// The parameter pieces that a rank updates, as plain rows without pointers, so that they can be copied into any memory.

#include <cstdint>
#include <span>
#include <vector>

#include "exec/backend/share_map.hpp"
#include "models/graph/task_graph.hpp"

namespace tandem::exec {

/// One piece of a parameter. gradient, weight, state: its first element in those operands of the optimizer.
struct PieceRow {
  std::int64_t gradient = 0, weight = 0, state = 0, count = 0;
  std::int64_t flat = 0;          ///< index of its first element in the flat buffers
  std::int32_t global_index = 0;  ///< Param::global_index of its parameter
  bool decay = false;             ///< weight decay applies
  bool counted = false;           ///< part of the gradient norm
  std::int32_t init_id = 0;       ///< selects the parameter's random numbers; equal for tied copies
  std::int64_t first = 0;         ///< index of its first element in the rank's share of the parameter
  ShareMap map = {};              ///< maps an index in that share to one in the whole parameter
  double sign_step = -1;          ///< Param::sign_step
  MatrixParts matrices = {};      ///< Param::matrices
  std::int64_t unsquared = 0;     ///< ParamPiece::unsquared

  /// Its first element in the second moments.
  constexpr std::int64_t second() const { return state - unsquared; }
};

/// `map_of(param)` returns the rank's ShareMap of that parameter.
template <class MapOf>
std::vector<PieceRow> piece_rows(std::span<const ParamPiece> pieces, MapOf map_of) {
  std::vector<PieceRow> rows;
  for (const ParamPiece& p : pieces)
    rows.push_back({p.gradient, p.weight, p.state, p.count, p.param->offset + p.first, p.param->global_index, p.param->decay,
                    p.counted && p.param->sign_step < 0, p.param->init_id, p.first, map_of(*p.param), p.param->sign_step,
                    p.param->matrices, p.unsquared});
  return rows;
}

}  // namespace tandem::exec
