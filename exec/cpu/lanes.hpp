#pragma once
// Loops that vectorise. The order of additions depends only on the length, not on addresses or the instruction set. So equal values
// always give equal bits.

#include <algorithm>
#include <array>
#include <cstdint>

namespace tandem::exec::cpu {

/// Number of partial sums: two of the widest vector registers, enough to hide the latency of additions.
template <class T>
inline constexpr std::int64_t kLanes = 128 / static_cast<std::int64_t>(sizeof(T));

/// Calls body(i) for i in [0, n). Iterations must touch different elements; their pointers may be equal.
template <class F>
inline void each(std::int64_t n, F body) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) body(i);
}

/// Combines term(0..n-1) into `kLanes` lanes (element i into lane i mod kLanes), then the lanes in pairs.
template <class T, class Term, class Combine>
inline T lane_fold(std::int64_t n, T start, Term term, Combine combine) {
  constexpr std::int64_t lanes = kLanes<T>;
  std::array<T, lanes> sum;
  sum.fill(start);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
#pragma omp simd
    for (std::int64_t l = 0; l < lanes; ++l) sum[l] = combine(sum[l], term(i + l));
  }
  for (std::int64_t l = 0; i + l < n; ++l) sum[l] = combine(sum[l], term(i + l));
  for (std::int64_t width = lanes / 2; width > 0; width /= 2) {
    for (std::int64_t l = 0; l < width; ++l) sum[l] = combine(sum[l], sum[l + width]);
  }
  return sum[0];
}

template <class T, class Term>
inline T lane_sum(std::int64_t n, Term term) {
  return lane_fold(n, T{0}, term, [](T a, T b) { return a + b; });
}

template <class T>
inline T dot(std::int64_t n, const T* a, const T* b) {
  return lane_sum<T>(n, [=](std::int64_t i) { return a[i] * b[i]; });
}

/// The largest term, at least `start`. NaN terms are ignored.
template <class T, class Term>
inline T lane_max(std::int64_t n, T start, Term term) {
  return lane_fold(n, start, term, [](T a, T b) { return b > a ? b : a; });
}

}  // namespace tandem::exec::cpu
