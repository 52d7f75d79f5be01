// RMS norms of query and key heads (arXiv 1910.07467, equation 4), in place in qkv, and their gradients.
#include <algorithm>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/lanes.hpp"
#include "exec/cpu/root_mean.hpp"

namespace tandem::exec::cpu {
namespace {

/// body(where a head of a token begins in qkv, where among queries and keys, whether it is a key).
template <class F>
void each_head(const AttentionDims& d, F body) {
  const std::int64_t queries = d.heads / d.groups();
  std::int64_t packed = 0;
  for (std::int64_t group = 0; group < d.batch * d.seq * d.groups(); ++group)
    for (std::int64_t h = 0; h <= queries; ++h, packed += d.head_dim)
      body(group * d.group_width() + h * d.head_dim, packed, h == queries);
}

}  // namespace

template <class T>
void compute(const HeadNorm& op, Call& call) {
  const T *of_queries = call.in<T>(1), *of_keys = call.in<T>(2);
  T *qkv = call.out<T>(0), *kept = call.out<T>(1);
  const std::int64_t n = op.dims.head_dim;
  each_head(op.dims, [&](std::int64_t at, std::int64_t packed, bool key) {
    T *y = qkv + at, *x = kept + packed;
    std::copy_n(y, n, x);
    const T rstd = inverse_root(x, n, op.epsilon);
    each(n, [=, gamma = key ? of_keys : of_queries](std::int64_t c) { y[c] = x[c] * rstd * gamma[c]; });
  });
}

// With g = dy gamma: dx = rstd (g - xhat mean(g xhat)).
template <class T>
void compute(const HeadNormBackward& op, Call& call) {
  const T *kept = call.in<T>(1), *of_queries = call.in<T>(2), *of_keys = call.in<T>(3);
  T *dqkv = call.out<T>(0), *for_queries = call.out<T>(1), *for_keys = call.out<T>(2);
  const std::int64_t n = op.dims.head_dim;
  std::fill_n(for_queries, n, T{0});
  std::fill_n(for_keys, n, T{0});
  each_head(op.dims, [&](std::int64_t at, std::int64_t packed, bool key) {
    const T *x = kept + packed, *gamma = key ? of_keys : of_queries;
    T *d = dqkv + at, *sums = key ? for_keys : for_queries;
    const T rstd = inverse_root(x, n, op.epsilon);
    const T mean = lane_sum<T>(n, [=](std::int64_t c) { return d[c] * gamma[c] * (x[c] * rstd); }) / static_cast<T>(n);
    each(n, [=](std::int64_t c) {
      const T xhat = x[c] * rstd, up = d[c];
      sums[c] += up * xhat;
      d[c] = rstd * (up * gamma[c] - xhat * mean);
    });
  });
}

TANDEM_KERNEL(HeadNorm);
TANDEM_KERNEL(HeadNormBackward);

}  // namespace tandem::exec::cpu
