// Softmax of attention scores with causal mask, ALiBi or relative bias, and dropout.
#include <cmath>
#include <limits>

#include "exec/cpu/attention.hpp"
#include "exec/cpu/dropout.hpp"
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/relative_bias.hpp"
#include "exec/cpu/split.hpp"
#include "exec/shared/alibi.hpp"
#include "exec/shared/vector_math.hpp"

namespace tandem::exec::cpu {
namespace {

// A (sequence, head, query), its position, and the visible keys [first, visible).
struct Row {
  std::int64_t sequence, head, query, position, first, visible;
};

template <class F>
void for_each_row(const AttentionDims& dims, const AttentionPlaces& places, const Call& call, F body) {
  each_row(call, dims.batch * dims.heads * dims.seq, dims.key_count(), [&](std::int64_t i) {
    const std::int64_t q = i % dims.seq, head = i / dims.seq;
    const std::int64_t s = head / dims.heads;
    const Row row{s, head % dims.heads, q, places.position(q), places.first_visible(s, q), places.visible(q)};
    body(row, i * dims.key_count());
  });
}

// Number of entries to process: the visible keys rounded up to whole lanes. The additional ones add exact zeros and avoid a loop
// over single elements.
template <class T>
std::int64_t padded_width(const Row& row, std::int64_t keys) {
  return std::min(keys, ((row.visible - 1) / kLanes<T> + 1) * kLanes<T>);
}

template <class T>
inline constexpr T kMasked = -std::numeric_limits<T>::infinity();

// x = score + bias(k) for visible keys, -infinity for the others among the first `width` keys.
template <class T, class Bias>
void mask_row(const T* scores, T* x, const Row& row, std::int64_t width, Bias bias) {
  const auto last = static_cast<int>(row.visible - 1);
  each(width, [=](std::int64_t i) {
    const int k = static_cast<int>(i);
    x[i] = k <= last ? scores[i] + bias(k) : kMasked<T>;
  });
  std::fill_n(x, row.first, kMasked<T>);
}

// p[k] = exp(x[k] - max x) / sum over visible keys, in place; exactly 0 for later keys.
template <class T>
void normalise_row(T* p, const Row& row, std::int64_t keys) {
  const std::int64_t width = padded_width<T>(row, keys);
  const T top = lane_max<T>(width, kMasked<T>, [=](std::int64_t k) { return p[k]; });
  each(width, [=](std::int64_t k) { p[k] = exp_saturating(p[k] - top); });
  const T inverse = T{1} / lane_sum<T>(width, [=](std::int64_t k) { return p[k]; });
  each(width, [=](std::int64_t k) { p[k] *= inverse; });
  std::fill(p + width, p + keys, T{0});
}

// dscores = p (g - sum g p). `ds` holds g on entry.
template <class T>
void softmax_row_backward(const T* p, T* ds, std::int64_t width) {
  const T dot = lane_sum<T>(width, [=](std::int64_t k) { return ds[k] * p[k]; });
  each(width, [=](std::int64_t k) { ds[k] = p[k] * (ds[k] - dot); });
}

// The bias on the scores of a row, and the mask.
template <class T>
class Bias {
 public:
  Bias(const AttentionSoftmax& op, const AttentionPlaces& places, const T* table)
      : op_(op), places_(places), relative_(op.dims, op.relative_buckets, places.all_queries()), table_(table) {
    require(!op.alibi || table == nullptr, "ALiBi and relative bias at once");
  }

  // Adds the bias to the first `width` keys of a row.
  void add(const T* scores, T* x, const Row& row, std::int64_t width) const {
    const auto position = static_cast<int>(row.position);
    if (table_ == nullptr) {
      const T slope = op_.alibi ? static_cast<T>(alibi_slope(places_.head(row.head), places_.heads())) : T{0};
      return mask_row(scores, x, row, width, [=](int k) { return slope * static_cast<T>(k - position); });
    }
    const T* numbers = table_ + row.head * op_.relative_buckets;
    const std::int32_t* bucket = relative_.of(row.position);
    mask_row(scores, x, row, width, [=](int k) { return numbers[bucket[k]]; });
  }

 private:
  const AttentionSoftmax& op_;
  const AttentionPlaces& places_;
  RelativeBuckets relative_;
  const T* table_;
};

// Sums the score gradients by bucket, for each head in the order of its rows.
template <class T>
void write_table(const AttentionSoftmaxBackward& op, const AttentionPlaces& places, const T* dscores, Call& call) {
  const AttentionDims& d = op.dims;
  const RelativeBuckets relative(d, op.relative_buckets, places.all_queries());
  T* dtable = call.out<T>(1);
  each_row(call, d.heads, d.batch * d.seq * d.key_count(), [&](std::int64_t h) {
    T* dnumbers = dtable + h * op.relative_buckets;
    std::fill_n(dnumbers, op.relative_buckets, T{0});
    for (std::int64_t s = 0; s < d.batch; ++s)
      for (std::int64_t q = 0; q < d.seq; ++q) {
        const T* ds = dscores + ((s * d.heads + h) * d.seq + q) * d.key_count();
        const std::int32_t* bucket = relative.of(places.position(q));
        for (std::int64_t k = 0; k < places.visible(q); ++k) dnumbers[bucket[k]] += ds[k];
      }
  });
}

// to = from after dropout; 0 for later keys.
template <class T>
void drop_row(const Dropout<T>& dropout, std::uint64_t first, const Row& row, std::int64_t keys, const T* from, T* to) {
  dropout.each(first, row.visible, [=](std::int64_t k, T factor) { to[k] = factor * from[k]; });
  std::fill(to + row.visible, to + keys, T{0});
}

template <class T, class Op>
void drop_only(const Op& op, Call& call) {
  const T* from = call.in<T>(0);
  T* to = call.out<T>(0);
  const Dropout<T> dropout(call.context(), op.site, op.dropout);
  const AttentionPlaces places(op.dims, call.context());
  for_each_row(op.dims, places, call, [&](const Row& row, std::int64_t at) {
    drop_row(dropout, places.mask_index(row.sequence, row.head, row.query), row, op.dims.key_count(), from + at, to + at);
  });
}

template <class T>
void normalise_only(const AttentionSoftmax& op, Call& call) {
  const T* x = call.in<T>(0);
  T* p = call.out<T>(0);
  const AttentionPlaces places(op.dims, call.context());
  for_each_row(op.dims, places, call, [&](const Row& row, std::int64_t at) {
    if (p != x) std::copy_n(x + at, op.dims.key_count(), p + at);
    normalise_row(p + at, row, op.dims.key_count());
  });
}

}  // namespace

template <class T>
void compute(const AttentionSoftmax& op, Call& call) {
  if (op.part == SoftmaxPart::dropout) return drop_only<T>(op, call);
  if (op.part == SoftmaxPart::softmax) return normalise_only<T>(op, call);
  const T *scores = call.in<T>(0), *table = op.relative_buckets > 0 ? call.in<T>(1) : nullptr;
  const bool whole = op.part == SoftmaxPart::whole;
  T *probs = call.out<T>(0), *dropped = whole && op.dropout > 0 ? call.out<T>(1) : nullptr;
  const Dropout<T> dropout(call.context(), op.site, op.dropout);
  const AttentionPlaces places(op.dims, call.context());
  const Bias<T> bias(op, places, table);
  const std::int64_t keys = op.dims.key_count();
  for_each_row(op.dims, places, call, [&](const Row& row, std::int64_t at) {
    bias.add(scores + at, probs + at, row, whole ? padded_width<T>(row, keys) : row.visible);
    if (!whole) return std::fill(probs + at + row.visible, probs + at + keys, kMasked<T>);
    normalise_row(probs + at, row, keys);
    if (dropped != nullptr)
      drop_row(dropout, places.mask_index(row.sequence, row.head, row.query), row, keys, probs + at, dropped + at);
  });
}

template <class T>
void compute(const AttentionSoftmaxBackward& op, Call& call) {
  if (op.part == SoftmaxPart::dropout) return drop_only<T>(op, call);
  const T *dprobs = call.in<T>(0), *probs = call.in<T>(1);
  T* dscores = call.out<T>(0);
  const Dropout<T> dropout(call.context(), op.site, op.dropout);
  const AttentionPlaces places(op.dims, call.context());
  for_each_row(op.dims, places, call, [&](const Row& row, std::int64_t at) {
    const T* dp = dprobs + at;
    T* ds = dscores + at;
    drop_row(dropout, places.mask_index(row.sequence, row.head, row.query), row, op.dims.key_count(), dp, ds);
    softmax_row_backward(probs + at, ds, padded_width<T>(row, op.dims.key_count()));
  });
  if (op.relative_buckets > 0) write_table(op, places, dscores, call);
}

TANDEM_KERNEL(AttentionSoftmax);
TANDEM_KERNEL(AttentionSoftmaxBackward);

}  // namespace tandem::exec::cpu
