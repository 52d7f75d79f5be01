#include "exec/state/state_values.hpp"

#include <algorithm>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/narrow.hpp"
#include "models/base/threads.hpp"

namespace tandem::exec {
namespace {

constexpr std::int64_t kAtOnce = 1 << 18;  // elements that are copied from or to a device together

/// body(first, count) for parts of a stretch of `count` elements.
template <class F>
void each_part(std::int64_t count, F body) {
  for (std::int64_t first = 0; first < count; first += kAtOnce) body(first, std::min(kAtOnce, count - first));
}

/// The same on all cores, in no order.
template <class F>
void each_part_at_once(std::int64_t count, F body) {
  for_each_index(static_cast<std::size_t>((count + kAtOnce - 1) / kAtOnce), {all_cores()}, [&](std::size_t part) {
    const std::int64_t first = static_cast<std::int64_t>(part) * kAtOnce;
    body(first, std::min(kAtOnce, count - first));
  });
}

/// body(i, in_whole, n) for the runs of local elements [first, first + count) that follow each other in the whole parameter.
template <class F>
void each_run(const ShareMap& map, std::int64_t first, std::int64_t count, F body) {
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t n = std::min(count - i, map.run(first + i));
    body(static_cast<std::size_t>(i), static_cast<std::size_t>(map.full_index(first + i)), static_cast<std::size_t>(n));
    i += n;
  }
}

}  // namespace

StateValues::StateValues(Memory& arena, std::int64_t offset, DType dtype)
    : arena_(arena), offset_(static_cast<std::size_t>(offset)), dtype_(dtype) {
  require(dtype == DType::fp32 || dtype == DType::fp64 || dtype == DType::bf16 || dtype == DType::fp16,
          "state is kept in fp64, fp32, bf16 or fp16");
  require(offset >= 0, "a buffer that a rank does not have");
}

namespace {

/// How a buffer stores numbers.
template <class T>
struct Native {
  using Stored = T;
  static T store(double v) { return static_cast<T>(v); }
  static double load(T v) { return static_cast<double>(v); }
};
struct StoredBf16 {
  using Stored = std::uint16_t;
  static std::uint16_t store(double v) { return to_bf16(static_cast<float>(v)); }
  static double load(std::uint16_t v) { return static_cast<double>(from_bf16(v)); }
};
struct StoredFp16 {
  using Stored = std::uint16_t;
  static std::uint16_t store(double v) { return to_fp16(static_cast<float>(v)); }
  static double load(std::uint16_t v) { return static_cast<double>(from_fp16(v)); }
};

/// body(a value of the type that stores `t`).
template <class F>
void with_storage(DType t, F body) {
  switch (t) {
    case DType::fp64: return body(Native<double>());
    case DType::bf16: return body(StoredBf16());
    case DType::fp16: return body(StoredFp16());
    default: return body(Native<float>());
  }
}

}  // namespace

void StateValues::write(const Stretch& s, const ShareMap& map, std::span<const double> whole) {
  with_storage(dtype_, [&]<class Storage>(Storage) {
    using T = typename Storage::Stored;
    each_part_at_once(s.count, [&](std::int64_t first, std::int64_t count) {
      std::vector<T> room(static_cast<std::size_t>(count));
      each_run(map, s.first + first, count, [&](std::size_t i, std::size_t at, std::size_t n) {
        for (std::size_t j = 0; j < n; ++j) room[i + j] = Storage::store(whole[at + j]);
      });
      arena_.write(offset_ + static_cast<std::size_t>(s.at + first) * sizeof(T), std::as_bytes(std::span(room)));
    });
  });
}

void StateValues::read(const Stretch& s, const ShareMap& map, std::span<double> whole) const {
  with_storage(dtype_, [&]<class Storage>(Storage) {
    using T = typename Storage::Stored;
    std::vector<T> room(static_cast<std::size_t>(std::min(kAtOnce, s.count)));
    each_part(s.count, [&](std::int64_t first, std::int64_t count) {
      arena_.read(offset_ + static_cast<std::size_t>(s.at + first) * sizeof(T),
                  std::as_writable_bytes(std::span(room).first(static_cast<std::size_t>(count))));
      each_run(map, s.first + first, count, [&](std::size_t i, std::size_t at, std::size_t n) {
        for (std::size_t j = 0; j < n; ++j) whole[at + j] = Storage::load(room[i + j]);
      });
    });
  });
}

}  // namespace tandem::exec
