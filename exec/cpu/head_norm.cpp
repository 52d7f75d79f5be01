// RMS norms of query and key heads (arXiv 1910.07467, equation 4), or of all heads of a token as one row (OLMo 2, arXiv 2501.00656
// section 2.1). In place in qkv; with gradients.
#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/root_mean.hpp"
#include "exec/cpu/split.hpp"

namespace tandem::exec::cpu {
namespace {

// One head of a token.
struct HeadPlace {
  std::int64_t at, packed;   // offset in qkv, and in packed queries and keys
  std::int64_t row, number;  // its token; index among the token's queries, or keys
  bool key;
};

// The place of head `head` in the order (group, {queries, k}) of a token.
HeadPlace head_place(const AttentionDims& d, std::int64_t row, std::int64_t head) {
  const std::int64_t queries = d.per_group(), group = head / (queries + 1), h = head % (queries + 1);
  const std::int64_t heads = d.groups() * (queries + 1);
  const bool key = h == queries;
  return {(row * d.groups() + group) * d.group_width() + h * d.head_dim, (row * heads + head) * d.head_dim, row,
          key ? group : group * queries + h, key};
}

std::int64_t heads_of(const AttentionDims& d) { return d.groups() * (d.per_group() + 1); }

// Calls body(HeadPlace) for all heads of all tokens. A token's heads run in order on one thread.
template <class F>
void each_head(const AttentionDims& d, const Call& call, F body) {
  each_row(call, d.batch * d.seq, heads_of(d) * d.head_dim, [&](std::int64_t row) {
    for (std::int64_t head = 0; head < heads_of(d); ++head) body(head_place(d, row, head));
  });
}

// As each_head(), but each head of all tokens runs in order on one thread.
template <class F>
void each_head_over_tokens(const AttentionDims& d, const Call& call, F body) {
  const std::int64_t rows = d.batch * d.seq;
  each_row(call, heads_of(d), rows * d.head_dim, [&](std::int64_t head) {
    for (std::int64_t row = 0; row < rows; ++row) body(head_place(d, row, head));
  });
}

// Number of elements of a row over all ranks.
template <class T, class Op>
T row_length(const Op& op, bool key) {
  return static_cast<T>((key ? op.dims.groups() : op.dims.heads) * op.dims.head_dim * op.ranks);
}

// 1 / sqrt(mean of squares + epsilon), from a row's sum of squares.
template <class T, class Op>
T inverse_root_of(const Op& op, const T* sums, const HeadPlace& head) {
  return T{1} / std::sqrt(sums[2 * head.row + head.key] / row_length<T>(op, head.key) + static_cast<T>(op.epsilon));
}

// A group's value head: its offset in qkv, and in the kept copy.
struct ValuePlace {
  std::int64_t at, packed;
};

// Elements per group in the kept copy.
std::int64_t kept_group(const HeadNorm& op) {
  const AttentionDims& d = op.dims;
  return (d.per_group() + 1) * d.head_dim + (op.values == NormedValues::own ? d.value_width() : 0);
}

// Calls body(ValuePlace) for the value heads of all tokens.
template <class F>
void each_value_head(const HeadNorm& op, const Call& call, F body) {
  const AttentionDims& d = op.dims;
  const std::int64_t before = d.per_group() * d.head_dim;
  each_row(call, op.tokens(), d.groups() * d.value_width(), [&](std::int64_t row) {
    for (std::int64_t g = 0; g < d.groups(); ++g) {
      const std::int64_t group = row * d.groups() + g, at = before + d.head_dim;
      body(ValuePlace{group * d.group_width() + at, group * kept_group(op) + at});
    }
  });
}

// Offset of a query or key head in the kept copy, which may have values between groups.
std::int64_t kept_at(const HeadNorm& op, const HeadPlace& head) {
  const std::int64_t of_group = (op.dims.per_group() + 1) * op.dims.head_dim;
  return head.packed + head.packed / of_group * (kept_group(op) - of_group);
}

// Tied values: normed keys without their weight.
template <class T>
void compute_tied(const HeadNorm& op, Call& call) {
  const T *kept = call.in<T>(0), *of_queries = call.in<T>(1), *of_keys = call.in<T>(2);
  T* qkv = call.out<T>(0);
  const std::int64_t n = op.dims.head_dim;
  each_head(op.dims, call, [&](const HeadPlace& head) {
    const T *x = kept + head.packed, rstd = inverse_root(x, n, op.epsilon);
    T* y = qkv + head.at;
    each(n, [=, gamma = head.key ? of_keys : of_queries](std::int64_t c) { y[c] = x[c] * rstd * gamma[c]; });
    if (head.key) each(n, [=, v = y + n](std::int64_t c) { v[c] = x[c] * rstd; });
  });
}

// dx = rstd (g - xhat mean(g xhat)), where gradient(column) is the gradient g of xhat.
template <class T, class G>
void through_norm(const T* x, std::int64_t n, double epsilon, T* dx, G gradient) {
  const T rstd = inverse_root(x, n, epsilon);
  const T mean = lane_sum<T>(n, [=](std::int64_t c) { return gradient(c) * (x[c] * rstd); }) / static_cast<T>(n);
  each(n, [=](std::int64_t c) { dx[c] = rstd * (gradient(c) - x[c] * rstd * mean); });
}

// Gradients of the weights: sums over tokens of dy xhat, for queries and for keys.
template <class T>
void gamma_gradients(const HeadNorm& op, const T* dqkv, const T* kept, T* for_queries, T* for_keys) {
  const std::int64_t n = op.dims.head_dim;
  std::fill_n(for_queries, n, T{0});
  std::fill_n(for_keys, n, T{0});
  // All heads share these sums of few columns and many rows, so the calling thread adds them in order.
  for (std::int64_t row = 0; row < op.tokens(); ++row)
    for (std::int64_t h = 0; h < heads_of(op.dims); ++h) {
      const HeadPlace head = head_place(op.dims, row, h);
      const T *x = kept + kept_at(op, head), rstd = inverse_root(x, n, op.epsilon);
      T* const sums = head.key ? for_keys : for_queries;
      each(n, [=, d = dqkv + head.at](std::int64_t c) { sums[c] += d[c] * (x[c] * rstd); });
    }
}

// A tied key's gradient is the sum of the key's and the value's.
template <class T>
void tied_backward(const HeadNormBackward& op, Call& call) {
  const T *dqkv = call.in<T>(0), *kept = call.in<T>(1), *of_queries = call.in<T>(2), *of_keys = call.in<T>(3);
  T* dkept = call.out<T>(0);
  const std::int64_t n = op.dims.head_dim;
  gamma_gradients(op.forward(), dqkv, kept, call.out<T>(1), call.out<T>(2));
  each_head(op.dims, call, [&](const HeadPlace& head) {
    const T *d = dqkv + head.at, *v = d + n, *gamma = head.key ? of_keys : of_queries;
    const bool key = head.key;
    through_norm(kept + head.packed, n, op.epsilon, dkept + head.packed,
                 [=](std::int64_t c) { return key ? d[c] * gamma[c] + v[c] : d[c] * gamma[c]; });
  });
}

}  // namespace
template <class T>
void compute(const HeadNorm& op, Call& call) {
  if (op.values == NormedValues::of_keys) return compute_tied<T>(op, call);
  const T *of_queries = op.plain ? nullptr : call.in<T>(1), *of_keys = op.plain ? nullptr : call.in<T>(2);
  T *qkv = call.out<T>(0), *kept = call.out<T>(1);
  const std::int64_t n = op.dims.head_dim;
  each_head(op.dims, call, [&](const HeadPlace& head) {
    T *y = qkv + head.at, *x = kept + kept_at(op, head);
    std::copy_n(y, n, x);
    const T rstd = inverse_root(x, n, op.epsilon);
    if (op.plain) return each(n, [=](std::int64_t c) { y[c] = x[c] * rstd; });
    each(n, [=, gamma = head.key ? of_keys : of_queries](std::int64_t c) { y[c] = x[c] * rstd * gamma[c]; });
  });
  if (op.values == NormedValues::none) return;
  const std::int64_t wide = op.dims.value_width();
  each_value_head(op, call, [&](const ValuePlace& v) {
    T *y = qkv + v.at, *x = kept + v.packed;
    std::copy_n(y, wide, x);
    const T rstd = inverse_root(x, wide, op.epsilon);
    each(wide, [=](std::int64_t c) { y[c] = x[c] * rstd; });
  });
}

// With g = dy gamma, or dy: dx = rstd (g - xhat mean(g xhat)).
template <class T>
void compute(const HeadNormBackward& op, Call& call) {
  if (op.values == NormedValues::of_keys) return tied_backward<T>(op, call);
  const T *kept = call.in<T>(1), *of_queries = op.plain ? nullptr : call.in<T>(2), *of_keys = op.plain ? nullptr : call.in<T>(3);
  T* dqkv = call.out<T>(0);
  const HeadNorm norm = op.forward();
  if (!op.plain) gamma_gradients(norm, dqkv, kept, call.out<T>(1), call.out<T>(2));
  each_head(op.dims, call, [&](const HeadPlace& head) {
    const T *x = kept + kept_at(norm, head), *gamma = head.key ? of_keys : of_queries;
    T* d = dqkv + head.at;
    if (gamma == nullptr) return through_norm(x, op.dims.head_dim, op.epsilon, d, [=](std::int64_t c) { return d[c]; });
    through_norm(x, op.dims.head_dim, op.epsilon, d, [=](std::int64_t c) { return d[c] * gamma[c]; });
  });
  if (op.values == NormedValues::none) return;
  each_value_head(norm, call, [&](const ValuePlace& v) {
    T* d = dqkv + v.at;
    through_norm(kept + v.packed, op.dims.value_width(), op.epsilon, d, [=](std::int64_t c) { return d[c]; });
  });
}

template <class T>
void compute(const RowNormSums& op, Call& call) {
  const T* qkv = call.in<T>(0);
  T* sums = call.out<T>(0);
  std::fill_n(sums, 2 * op.rows(), T{0});
  each_head(op.dims, call, [&](const HeadPlace& head) {
    sums[2 * head.row + head.key] += lane_sum<T>(op.dims.head_dim, [x = qkv + head.at](std::int64_t c) { return x[c] * x[c]; });
  });
}

template <class T>
void compute(const RowNorm& op, Call& call) {
  const T *of_queries = call.in<T>(1), *of_keys = call.in<T>(2), *sums = call.in<T>(3);
  T *qkv = call.out<T>(0), *kept = call.out<T>(1);
  const std::int64_t n = op.dims.head_dim;
  each_head(op.dims, call, [&](const HeadPlace& head) {
    T *y = qkv + head.at, *x = kept + head.packed;
    const T *gamma = (head.key ? of_keys : of_queries) + head.number * n, rstd = inverse_root_of(op, sums, head);
    std::copy_n(y, n, x);
    each(n, [=](std::int64_t c) { y[c] = x[c] * rstd * gamma[c]; });
  });
}

template <class T>
void compute(const RowNormDots& op, Call& call) {
  const T *dqkv = call.in<T>(0), *kept = call.in<T>(1), *of_queries = call.in<T>(2), *of_keys = call.in<T>(3);
  T* dots = call.out<T>(0);
  const std::int64_t n = op.dims.head_dim;
  std::fill_n(dots, 2 * op.rows(), T{0});
  each_head(op.dims, call, [&](const HeadPlace& head) {
    const T *d = dqkv + head.at, *x = kept + head.packed, *gamma = (head.key ? of_keys : of_queries) + head.number * n;
    dots[2 * head.row + head.key] += lane_sum<T>(n, [=](std::int64_t c) { return d[c] * gamma[c] * x[c]; });
  });
}

// With g = dy gamma: dx = rstd (g - xhat mean(g xhat)).
template <class T>
void compute(const RowNormBackward& op, Call& call) {
  const T *kept = call.in<T>(1), *of_queries = call.in<T>(2), *of_keys = call.in<T>(3), *sums = call.in<T>(4),
          *dots = call.in<T>(5);
  T *dqkv = call.out<T>(0), *for_queries = call.out<T>(1), *for_keys = call.out<T>(2);
  const std::int64_t n = op.dims.head_dim;
  std::fill_n(for_queries, op.dims.heads * n, T{0});
  std::fill_n(for_keys, op.dims.groups() * n, T{0});
  each_head_over_tokens(op.dims, call, [&](const HeadPlace& head) {
    const T *x = kept + head.packed, *gamma = (head.key ? of_keys : of_queries) + head.number * n;
    T *d = dqkv + head.at, *total = (head.key ? for_keys : for_queries) + head.number * n;
    const T rstd = inverse_root_of(op, sums, head);
    const T mean = dots[2 * head.row + head.key] * rstd / row_length<T>(op, head.key);
    each(n, [=](std::int64_t c) {
      const T xhat = x[c] * rstd, up = d[c];
      total[c] += up * xhat;
      d[c] = rstd * (up * gamma[c] - xhat * mean);
    });
  });
}

TANDEM_KERNEL(HeadNorm);
TANDEM_KERNEL(HeadNormBackward);
TANDEM_KERNEL(RowNormSums);
TANDEM_KERNEL(RowNorm);
TANDEM_KERNEL(RowNormDots);
TANDEM_KERNEL(RowNormBackward);

}  // namespace tandem::exec::cpu
