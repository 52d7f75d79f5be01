#include "exec/state/gather.hpp"

#include <limits>
#include <map>

#include "exec/state/stored_values.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

using Tensors = std::map<std::int32_t, GatheredTensor>;  // by global index

constexpr std::int64_t kAtOnce = 1 << 18;  // elements copied from a device at once

GatheredTensor& whole_of(const Param& p, Tensors& tensors) {
  auto& whole = tensors[p.global_index];
  if (!whole.values.empty()) return whole;
  whole = {p.name, p.full_rows, p.full_cols, {}};
  whole.values.assign(static_cast<std::size_t>(p.full_rows * p.full_cols), std::numeric_limits<double>::quiet_NaN());
  return whole;
}

void read(BlockPlace from, GatheredTensor& to) {
  std::vector<std::byte> room;
  for (const Block& part : parts_of(from.block, kAtOnce)) {
    room.resize(static_cast<std::size_t>(part.elements()) * stored_bytes(from.type));
    from.arena->read(from.offset, room);
    from.offset += room.size();
    const auto cols = static_cast<std::size_t>(part.cols);
    for (std::int64_t r = 0; r < part.rows; ++r)
      load_values(from.type, room.data() + static_cast<std::size_t>(r) * cols * stored_bytes(from.type),
                  std::span(to.values).subspan(static_cast<std::size_t>((part.row + r) * to.cols + part.col), cols));
  }
}

}  // namespace

std::vector<GatheredTensor> gather(std::span<const RankState> ranks, std::string_view allocation, DType dtype) {
  Tensors tensors;
  for (const auto& rank : ranks) {
    const auto offset = state_offset(rank, allocation);
    require(offset >= 0 || rank.program->params.empty(), "a program without the buffer that is gathered");
    for (const HeldBlock& held : counted_blocks(rank, allocation))
      read(place_of(rank, held, offset, dtype), whole_of(*held.param, tensors));
  }
  std::vector<GatheredTensor> all;
  for (auto& [index, tensor] : tensors) all.push_back(std::move(tensor));
  return all;
}

}  // namespace tandem::exec
