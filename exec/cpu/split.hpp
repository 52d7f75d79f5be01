#pragma once
// Kernel loops that a rank's threads share. Iterations must write to different places.

#include <algorithm>
#include <cstdint>

#include "exec/cpu/call.hpp"
#include "exec/cpu/lanes.hpp"
#include "exec/cpu/team/team.hpp"

namespace tandem::exec::cpu {

/// each() on all threads.
template <class F>
inline void each(const Call& call, std::int64_t n, F body) {
  call.team().split(n, call.team().element_grain(), [=](std::int64_t first, std::int64_t end) {
    each(end - first, [=](std::int64_t i) { body(first + i); });
  });
}

/// Calls body(r) for rows r in [0, rows), each of about `width` numbers.
template <class F>
inline void each_row(const Call& call, std::int64_t rows, std::int64_t width, F body) {
  call.team().split(rows, call.team().grain(width), [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t r = first; r < end; ++r) body(r);
  });
}

/// Calls body(first, end) for ranges of columns of a matrix of `rows` rows. The body processes the rows in order.
template <class F>
inline void each_columns(const Call& call, std::int64_t rows, std::int64_t cols, F body) {
  call.team().split(cols, call.team().element_grain(rows), body);
}

template <class T>
inline void fill(const Call& call, T* to, std::int64_t n, T value) {
  call.team().split(n, call.team().element_grain(),
                    [=](std::int64_t first, std::int64_t end) { std::fill(to + first, to + end, value); });
}

}  // namespace tandem::exec::cpu
