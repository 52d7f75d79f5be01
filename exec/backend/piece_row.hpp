#pragma once
// What a rank updates, as rows without pointers, so that they can be copied into any memory.

#include <cstdint>
#include <span>
#include <vector>

#include "exec/backend/share_map.hpp"
#include "models/graph/task_graph.hpp"

namespace tandem::exec {

/// A part of a parameter; gradient, weight, state: where it begins in those operands of the optimizer, in elements.
struct PieceRow {
  std::int64_t gradient = 0, weight = 0, state = 0, count = 0;
  std::int64_t flat = 0;          ///< where it begins in the flat buffers, in elements
  std::int32_t global_index = 0;  ///< of the parameter
  bool decay = false;             ///< weight decay applies
  bool counted = false;           ///< in norms
  std::int32_t init_id = 0;       ///< names the parameter's random numbers; equal for tied copies
  std::int64_t first = 0;         ///< where it begins in the rank's share of the parameter
  ShareMap map = {};              ///< from there to the whole parameter
  double sign_step = 0;           ///< of Param
};

/// `map_of`: the rank's ShareMap of a parameter.
template <class MapOf>
std::vector<PieceRow> piece_rows(std::span<const ParamPiece> pieces, MapOf map_of) {
  std::vector<PieceRow> rows;
  for (const ParamPiece& p : pieces)
    rows.push_back({p.gradient, p.weight, p.state, p.count, p.param->offset + p.first, p.param->global_index, p.param->decay,
                    p.counted && p.param->sign_step == 0, p.param->init_id, p.first, map_of(*p.param), p.param->sign_step});
  return rows;
}

}  // namespace tandem::exec
