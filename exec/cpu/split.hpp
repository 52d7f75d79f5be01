#pragma once
// Loops of kernels, shared by the threads of a rank. What one iteration writes no other one touches.

#include <algorithm>
#include <cstdint>

#include "exec/cpu/call.hpp"
#include "exec/cpu/lanes.hpp"
#include "exec/cpu/team/team.hpp"

namespace tandem::exec::cpu {

/// each(), its elements shared.
template <class F>
inline void each(const Call& call, std::int64_t n, F body) {
  call.team().split(n, call.team().element_grain(), [=](std::int64_t first, std::int64_t end) {
    each(end - first, [=](std::int64_t i) { body(first + i); });
  });
}

/// body(r) for rows r in [0, rows) of about `width` numbers each.
template <class F>
inline void each_row(const Call& call, std::int64_t rows, std::int64_t width, F body) {
  call.team().split(rows, call.team().grain(width), [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t r = first; r < end; ++r) body(r);
  });
}

/// body(first, end) for ranges of columns of a matrix of `rows` rows, whose rows are gone through in order inside.
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
