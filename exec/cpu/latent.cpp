// Latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): the norm of a compressed row, and the heads expanded from it.
#include <algorithm>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/root_mean.hpp"
#include "exec/cpu/split.hpp"

namespace tandem::exec::cpu {
namespace {

/// Offsets of a token's head: in qkv, among queries, and among keys and values; and of the token's shared part.
struct HeadPlace {
  std::int64_t qkv, q, kv, shared;
};

template <class Op, class F>
void each_head(const Op& op, const Call& call, F body) {
  const AttentionDims& d = op.dims;
  require(d.groups() == d.heads, "heads of latent attention that share keys");
  const std::int64_t own = d.pair_width() - op.turned;
  each_row(call, op.rows(), d.heads * d.group_width(), [&](std::int64_t row) {
    std::int64_t head = row * d.heads;
    for (std::int64_t h = 0; h < d.heads; ++h, ++head)
      body(HeadPlace{head * d.group_width(), head * d.head_dim, head * own, row * op.turned}, h == 0);
  });
}

}  // namespace

template <class T>
void compute(const LatentNorm& op, Call& call) {
  const T* gamma = call.in<T>(1);
  T* stats = call.out<T>(2);
  each_row(call, op.rows, op.cols + op.rest, [&](std::int64_t r) {
    const T* x = call.in<T>(0) + r * (op.cols + op.rest);
    T *y = call.out<T>(0) + r * op.cols, *others = call.out<T>(1) + r * op.rest;
    const T rstd = inverse_root(x, op.cols, op.epsilon);
    each(op.cols, [=](std::int64_t c) { y[c] = x[c] * rstd * gamma[c]; });
    std::copy_n(x + op.cols, op.rest, others);
    stats[2 * r] = T{0};
    stats[2 * r + 1] = rstd;
  });
}

// With g = dy gamma: dx = rstd (g - xhat mean(g xhat)).
template <class T>
void compute(const LatentNormBackward& op, Call& call) {
  const T *stats = call.in<T>(3), *gamma = call.in<T>(4);
  const std::int64_t width = op.cols + op.rest;
  each_columns(call, op.rows, op.cols, [&](std::int64_t first, std::int64_t end) {
    T* dgamma = call.out<T>(1) + first;
    std::fill_n(dgamma, end - first, T{0});
    for (std::int64_t r = 0; r < op.rows; ++r)
      each(end - first, [=, rstd = stats[2 * r + 1], dy = call.in<T>(0) + r * op.cols + first,
                         x = call.in<T>(2) + r * width + first](std::int64_t c) { dgamma[c] += dy[c] * (x[c] * rstd); });
  });
  each_row(call, op.rows, width, [&](std::int64_t r) {
    const T *dy = call.in<T>(0) + r * op.cols, *dothers = call.in<T>(1) + r * op.rest, *x = call.in<T>(2) + r * width;
    T* dx = call.out<T>(0) + r * width;
    const T rstd = stats[2 * r + 1];
    const T mean = lane_sum<T>(op.cols, [=](std::int64_t c) { return dy[c] * gamma[c] * (x[c] * rstd); }) / static_cast<T>(op.cols);
    each(op.cols, [=](std::int64_t c) {
      const T xhat = x[c] * rstd;
      dx[c] = rstd * (dy[c] * gamma[c] - xhat * mean);
    });
    std::copy_n(dothers, op.rest, dx + op.cols);
  });
}

template <class T>
void compute(const LatentHeads& op, Call& call) {
  const T *q = call.in<T>(0), *kv = call.in<T>(1), *shared = call.in<T>(2);
  T* qkv = call.out<T>(0);
  const std::int64_t dim = op.dims.head_dim, own = op.dims.pair_width() - op.turned;
  const T scale = static_cast<T>(op.query_scale);
  each_head(op, call, [=](const HeadPlace& at, bool) {
    each(dim, [=, to = qkv + at.qkv, from = q + at.q](std::int64_t c) { to[c] = from[c] * scale; });
    T* key = qkv + at.qkv + dim;
    std::copy_n(shared + at.shared, op.turned, key);
    std::copy_n(kv + at.kv, own, key + op.turned);
  });
}

template <class T>
void compute(const LatentHeadsBackward& op, Call& call) {
  const T* dqkv = call.in<T>(0);
  T *dq = call.out<T>(0), *dkv = call.out<T>(1), *dshared = call.out<T>(2);
  const std::int64_t dim = op.dims.head_dim, own = op.dims.pair_width() - op.turned, turned = op.turned;
  const T scale = static_cast<T>(op.query_scale);
  each_head(op, call, [=](const HeadPlace& at, bool first) {
    each(dim, [=, to = dq + at.q, from = dqkv + at.qkv](std::int64_t c) { to[c] = from[c] * scale; });
    const T* key = dqkv + at.qkv + dim;
    each(turned, [=, to = dshared + at.shared](std::int64_t c) { to[c] = first ? key[c] : to[c] + key[c]; });
    std::copy_n(key + turned, own, dkv + at.kv);
  });
}

TANDEM_KERNEL(LatentNorm);
TANDEM_KERNEL(LatentNormBackward);
TANDEM_KERNEL(LatentHeads);
TANDEM_KERNEL(LatentHeadsBackward);

}  // namespace tandem::exec::cpu
