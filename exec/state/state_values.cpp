#include "exec/state/state_values.hpp"

#include <algorithm>
#include <vector>

#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::int64_t kAtOnce = 1 << 16;  // elements that are copied from or to a device together

/// body(first, count) for parts of a stretch of `count` elements.
template <class F>
void each_part(std::int64_t count, F body) {
  for (std::int64_t first = 0; first < count; first += kAtOnce) body(first, std::min(kAtOnce, count - first));
}

}  // namespace

StateValues::StateValues(Memory& arena, std::int64_t offset, DType dtype)
    : arena_(arena), offset_(static_cast<std::size_t>(offset)), dtype_(dtype) {
  require(dtype == DType::fp32 || dtype == DType::fp64, "state is kept in fp32 or fp64");
  require(offset >= 0, "a buffer that a rank does not have");
}

template <class T>
void StateValues::write_as(const Stretch& s, const ShareMap& map, std::span<const double> whole) {
  std::vector<T> room(static_cast<std::size_t>(std::min(kAtOnce, s.count)));
  each_part(s.count, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      room[static_cast<std::size_t>(i)] = static_cast<T>(whole[static_cast<std::size_t>(map.full_index(s.first + first + i))]);
    arena_.write(offset_ + static_cast<std::size_t>(s.at + first) * sizeof(T),
                 std::as_bytes(std::span(room).first(static_cast<std::size_t>(count))));
  });
}

template <class T>
void StateValues::read_as(const Stretch& s, const ShareMap& map, std::span<double> whole) const {
  std::vector<T> room(static_cast<std::size_t>(std::min(kAtOnce, s.count)));
  each_part(s.count, [&](std::int64_t first, std::int64_t count) {
    arena_.read(offset_ + static_cast<std::size_t>(s.at + first) * sizeof(T),
                std::as_writable_bytes(std::span(room).first(static_cast<std::size_t>(count))));
    for (std::int64_t i = 0; i < count; ++i)
      whole[static_cast<std::size_t>(map.full_index(s.first + first + i))] = static_cast<double>(room[static_cast<std::size_t>(i)]);
  });
}

void StateValues::write(const Stretch& s, const ShareMap& map, std::span<const double> whole) {
  dtype_ == DType::fp64 ? write_as<double>(s, map, whole) : write_as<float>(s, map, whole);
}

void StateValues::read(const Stretch& s, const ShareMap& map, std::span<double> whole) const {
  dtype_ == DType::fp64 ? read_as<double>(s, map, whole) : read_as<float>(s, map, whole);
}

}  // namespace tandem::exec
