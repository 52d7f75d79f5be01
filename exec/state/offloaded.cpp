#include "exec/state/offloaded.hpp"

#include <algorithm>
#include <utility>

#include "exec/state/param_layout.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {

StateLayout::StateLayout(const Program& program, HostArena host, std::int64_t arena_bytes)
    : host_(std::move(host)), parts_{{0, arena_bytes, false, 0}}, end_(arena_aligned(arena_bytes)) {
  for (const HostTensor& t : host_.tensors())
    if (offset(t.buffer) < 0) add_buffer(program, t);
}

/// The units of this buffer that are on the device are contiguous there.
void StateLayout::add_buffer(const Program& program, const HostTensor& like) {
  buffers_.push_back({like.buffer, end_});
  std::int64_t kept = 0;  // elements
  for (std::size_t u = 0; u < program.units.size(); ++u) {
    const ShardUnit& unit = program.units[u];
    const std::int64_t at = end_ + bytes_of(like.dtype, unit.shard_offset).count();
    const std::int64_t bytes = bytes_of(like.dtype, unit.shard_elements()).count();
    const HostTensor* there = host_.find(like.buffer, static_cast<std::int32_t>(u));
    if (there != nullptr) {
      parts_.push_back({at, bytes, true, there->offset});
      continue;
    }
    const std::int64_t device = state_offset(program, like.buffer);
    require(device >= 0, "a unit's states are neither on the device nor on the host");
    parts_.push_back({at, bytes, false, device + bytes_of(like.dtype, kept).count()});
    kept += unit.shard_elements();
  }
  end_ = arena_aligned(end_ + bytes_of(like.dtype, program.shard_elements).count());
}

std::int64_t StateLayout::offset(std::string_view buffer) const {
  for (const Buffer& b : buffers_)
    if (b.name == buffer) return b.offset;
  return -1;
}

std::vector<std::string> StateLayout::buffers() const {
  std::vector<std::string> names;
  for (const Buffer& b : buffers_) names.push_back(b.name);
  return names;
}

std::vector<UpdateRows> StateLayout::updates(const Program& program, std::span<const PieceRow> rows) const {
  std::vector<UpdateRows> all{{-1, {}}};
  std::int64_t gone = 0;  // elements of states that are not on the device
  auto row = rows.begin();
  for (std::size_t u = 0; u < program.units.size(); ++u) {
    const ShardUnit& unit = program.units[u];
    const bool apart = host_.has_states(static_cast<std::int32_t>(u));
    if (apart) all.push_back({static_cast<std::int32_t>(u), {}});
    for (; row != rows.end() && row->flat < unit.offset + unit.elements; ++row) {
      PieceRow mine = *row;
      if (apart) mine.gradient = mine.weight = mine.state = row->state - unit.shard_offset;
      else mine.state -= gone;
      (apart ? all.back() : all.front()).rows.push_back(mine);
    }
    if (apart) gone += unit.shard_elements();
  }
  return all;
}

template <class F>
void StateMemory::each(std::size_t at, std::size_t bytes, F f) const {
  const auto begin = static_cast<std::int64_t>(at), end = begin + static_cast<std::int64_t>(bytes);
  std::int64_t done = 0;
  for (const StateLayout::Part& p : layout_->parts()) {
    const std::int64_t first = std::max(begin, p.at), last = std::min(end, p.at + p.bytes);
    if (first >= last) continue;
    f(p.host ? *host_ : *device_, static_cast<std::size_t>(p.offset + first - p.at), static_cast<std::size_t>(first - begin),
      static_cast<std::size_t>(last - first));
    done += last - first;
  }
  require(done == end - begin, "bytes outside a rank's states");
}

void StateMemory::read(std::size_t at, std::span<std::byte> to) const {
  each(at, to.size(),
       [&](const Memory& m, std::size_t there, std::size_t first, std::size_t n) { m.read(there, to.subspan(first, n)); });
}

void StateMemory::write(std::size_t at, std::span<const std::byte> from) {
  each(at, from.size(),
       [&](Memory& m, std::size_t there, std::size_t first, std::size_t n) { m.write(there, from.subspan(first, n)); });
}

void StateMemory::fill(std::size_t at, std::size_t bytes, std::byte value) {
  each(at, bytes, [&](Memory& m, std::size_t there, std::size_t, std::size_t n) { m.fill(there, n, value); });
}

}  // namespace tandem::exec
