// Causal softmax of attention scores with ALiBi bias and dropout.
#include <bit>
#include <cmath>
#include <limits>

#include "exec/cpu/dropout.hpp"
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/vector_math.hpp"

namespace tandem::exec::cpu {
namespace {

// Slopes of ALiBi (Press et al., arXiv 2108.12409, section 3): geometric for a power of two heads; the rest of the
// heads take every other slope of the next power of two, as its authors' code does.
double alibi_slope(std::int64_t head, std::int64_t heads) {
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  if (head < power) return std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(power));
  return std::exp2(-4.0 * static_cast<double>(2 * (head - power) + 1) / static_cast<double>(power));
}

// One (sequence, head, query): keys 0 .. query take part.
struct Row {
  std::int64_t sequence, head, query;
};

template <class F>
void for_each_row(const AttentionDims& dims, F body) {
  std::int64_t offset = 0;
  for (std::int64_t s = 0; s < dims.batch; ++s) {
    for (std::int64_t h = 0; h < dims.heads; ++h) {
      for (std::int64_t q = 0; q < dims.seq; ++q, offset += dims.seq) body(Row{s, h, q}, offset);
    }
  }
}

struct GlobalHeads {
  std::int64_t first, total;
  GlobalHeads(const AttentionDims& dims, const KernelContext& context)
      : first(context.tensor_rank * dims.heads), total(context.tensor_size * dims.heads) {}
};

std::uint64_t mask_index(const Row& row, const AttentionDims& dims, const KernelContext& context) {
  const GlobalHeads heads(dims, context);
  const std::int64_t head = (context.first_sequence + row.sequence) * heads.total + heads.first + row.head;
  return static_cast<std::uint64_t>((head * dims.seq + row.query) * dims.seq);
}

// Entries worked on: the row's keys rounded up to whole lanes. What lies beyond the query adds exact zeros and spares a
// loop of single elements.
template <class T>
std::int64_t padded_width(const Row& row, std::int64_t seq) {
  return std::min(seq, (row.query / kLanes<T> + 1) * kLanes<T>);
}

// p[k] = exp(x[k] - max x) / sum over k <= query, with x = score + slope (k - query); exactly 0 beyond the query.
template <class T>
void softmax_row(const T* scores, T* p, const Row& row, std::int64_t seq, T slope) {
  constexpr T masked = -std::numeric_limits<T>::infinity();
  const std::int64_t width = padded_width<T>(row, seq);
  const auto query = static_cast<int>(row.query);
  each(width, [=](std::int64_t i) {
    const int k = static_cast<int>(i);
    p[i] = k <= query ? scores[i] + slope * static_cast<T>(k - query) : masked;
  });
  const T top = lane_max<T>(width, masked, [=](std::int64_t k) { return p[k]; });
  each(width, [=](std::int64_t k) { p[k] = exp_saturating(p[k] - top); });
  const T inverse = T{1} / lane_sum<T>(width, [=](std::int64_t k) { return p[k]; });
  each(width, [=](std::int64_t k) { p[k] *= inverse; });
  std::fill(p + width, p + seq, T{0});
}

// dscores = p (g - sum g p), from g in ds.
template <class T>
void softmax_row_backward(const T* p, T* ds, std::int64_t width) {
  const T dot = lane_sum<T>(width, [=](std::int64_t k) { return ds[k] * p[k]; });
  each(width, [=](std::int64_t k) { ds[k] = p[k] * (ds[k] - dot); });
}

}  // namespace

template <class T>
void compute(const AttentionSoftmax& op, Call& call) {
  const T* scores = call.in<T>(0);
  T *probs = call.out<T>(0), *dropped = op.dropout > 0 ? call.out<T>(1) : nullptr;
  const Dropout<T> dropout(call.context(), DropoutSite::attention, op.dropout);
  const GlobalHeads heads(op.dims, call.context());
  for_each_row(op.dims, [&](const Row& row, std::int64_t at) {
    const double slope = op.alibi ? alibi_slope(heads.first + row.head, heads.total) : 0;
    softmax_row(scores + at, probs + at, row, op.dims.seq, static_cast<T>(slope));
    if (dropped == nullptr) return;
    const T* p = probs + at;
    T* d = dropped + at;
    dropout.each(mask_index(row, op.dims, call.context()), row.query + 1,
                 [=](std::int64_t k, T factor) { d[k] = factor * p[k]; });
    std::fill(d + row.query + 1, d + op.dims.seq, T{0});
  });
}

template <class T>
void compute(const AttentionSoftmaxBackward& op, Call& call) {
  const T *dprobs = call.in<T>(0), *probs = call.in<T>(1);
  T* dscores = call.out<T>(0);
  const Dropout<T> dropout(call.context(), DropoutSite::attention, op.dropout);
  for_each_row(op.dims, [&](const Row& row, std::int64_t at) {
    const T* dp = dprobs + at;
    T* ds = dscores + at;
    dropout.each(mask_index(row, op.dims, call.context()), row.query + 1,
                 [=](std::int64_t k, T factor) { ds[k] = factor * dp[k]; });
    std::fill(ds + row.query + 1, ds + op.dims.seq, T{0});
    softmax_row_backward(probs + at, ds, padded_width<T>(row, op.dims.seq));
  });
}

TANDEM_KERNEL(AttentionSoftmax);
TANDEM_KERNEL(AttentionSoftmaxBackward);

}  // namespace tandem::exec::cpu
