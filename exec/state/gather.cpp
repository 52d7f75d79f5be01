#include "exec/state/gather.hpp"

#include <cstring>
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

void read(const BlockPlace& from, GatheredTensor& to) {
  for (const Block& part : parts_of(from.block, kAtOnce)) {
    const std::vector<std::byte> room = values_at(rows_of(from, part), DType::fp64);
    const std::size_t row = static_cast<std::size_t>(part.cols) * sizeof(double);
    for (std::int64_t r = 0; r < part.rows; ++r) {
      double* const place = &to.values[static_cast<std::size_t>((part.row + r) * to.cols + part.col)];
      std::memcpy(place, room.data() + static_cast<std::size_t>(r) * row, row);
    }
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
