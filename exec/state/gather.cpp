#include "exec/state/gather.hpp"

#include <limits>
#include <map>

#include "exec/state/state_values.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

using Tensors = std::map<std::int32_t, GatheredTensor>;  // by global index

GatheredTensor& whole_of(const Param& p, Tensors& tensors) {
  auto& whole = tensors[p.global_index];
  if (!whole.values.empty()) return whole;
  whole = {p.name, p.full_rows, p.full_cols, {}};
  whole.values.assign(static_cast<std::size_t>(p.full_rows * p.full_cols), std::numeric_limits<double>::quiet_NaN());
  return whole;
}

std::int64_t place_in(std::string_view allocation, const ParamPiece& piece) {
  if (allocation == "gradients") return piece.gradient;
  return allocation == "weights" ? piece.weight : piece.state;
}

/// Everything that one rank of the whole world is to count.
std::vector<ParamPiece> counted_pieces(const RankState& rank) {
  auto seat = rank.seat;
  seat.norm_over_world = true;
  auto pieces = param_pieces(*rank.program, seat);
  std::erase_if(pieces, [](const ParamPiece& p) { return !p.counted; });
  return pieces;
}

}  // namespace

std::vector<GatheredTensor> gather(std::span<const RankState> ranks, std::string_view allocation, DType dtype) {
  Tensors tensors;
  for (const auto& rank : ranks) {
    const auto offset = state_offset(rank, allocation);
    require(offset >= 0 || rank.program->params.empty(), "a program without the buffer that is gathered");
    for (const auto& piece : counted_pieces(rank)) {
      auto& values = whole_of(*piece.param, tensors).values;
      StateValues(*rank.arena, offset, dtype)
          .read({piece.first, piece.count, place_in(allocation, piece)}, share_map(*piece.param, rank), values);
    }
  }
  std::vector<GatheredTensor> all;
  for (auto& [index, tensor] : tensors) all.push_back(std::move(tensor));
  return all;
}

}  // namespace tandem::exec
