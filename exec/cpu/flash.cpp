// Attention that keeps no scores (Dao et al., arXiv 2205.14135, algorithms 1 and 4; a row of scores at a time), and the
// steps of a ring of context ranks (Liu et al., arXiv 2310.01889).
#include <cmath>
#include <limits>
#include <vector>

#include "exec/cpu/attention.hpp"
#include "exec/cpu/dropout.hpp"
#include "exec/cpu/kernels.hpp"
#include "exec/shared/alibi.hpp"
#include "exec/shared/vector_math.hpp"

namespace tandem::exec::cpu {
namespace {

// A head's rows of an operand turned to [head_dim, rows], so that loops over keys run along memory.
template <class T>
class Turned {
 public:
  Turned(std::int64_t dims, std::int64_t rows)
      : dims_(dims), rows_(rows), values_(static_cast<std::size_t>(dims * rows)) {}
  Turned(const T* data, const HeadRows& from, std::int64_t dims) : Turned(dims, from.count) {
    for (std::int64_t k = 0; k < rows_; ++k)
      for (std::int64_t d = 0; d < dims_; ++d) row(d)[k] = data[from.at(k) + d];
  }
  T* row(std::int64_t d) { return values_.data() + d * rows_; }
  const T* row(std::int64_t d) const { return values_.data() + d * rows_; }
  // Writes or adds the values where they belong.
  void put(T* data, const HeadRows& to, bool add) const {
    for (std::int64_t k = 0; k < rows_; ++k)
      for (std::int64_t d = 0; d < dims_; ++d) {
        T& at = data[to.at(k) + d];
        at = add ? at + row(d)[k] : row(d)[k];
      }
  }

 private:
  std::int64_t dims_, rows_;
  std::vector<T> values_;
};

// A head's rows of an operand one after the other, [rows, head_dim].
template <class T>
class Straight {
 public:
  Straight(const T* data, const HeadRows& from, std::int64_t dims) : dims_(dims) {
    for (std::int64_t k = 0; k < from.count; ++k) values_.insert(values_.end(), data + from.at(k), data + from.at(k) + dims);
  }
  const T* row(std::int64_t k) const { return values_.data() + k * dims_; }

 private:
  std::int64_t dims_;
  std::vector<T> values_;
};

// sum[i] += sum over j of x(j) rows.row(j)[i] for i < n, j < count; four rows at a time, so that sums are seldom stored.
template <class T, class Matrix, class Factor>
void add_rows(T* sum, std::int64_t n, const Matrix& rows, std::int64_t count, Factor x) {
  std::int64_t j = 0;
  for (; j + 4 <= count; j += 4) {
    const T *a = rows.row(j), *b = rows.row(j + 1), *c = rows.row(j + 2), *d = rows.row(j + 3);
    const T xa = x(j), xb = x(j + 1), xc = x(j + 2), xd = x(j + 3);
    each(n, [=](std::int64_t i) { sum[i] += (xa * a[i] + xb * b[i]) + (xc * c[i] + xd * d[i]); });
  }
  for (; j < count; ++j) each(n, [=, a = rows.row(j), f = x(j)](std::int64_t i) { sum[i] += f * a[i]; });
}

// Loops shared by both directions: one (sequence, head, query) with the keys it sees.
template <class T, class Op>
class Rows {
 public:
  Rows(const Op& op, Call& call)
      : dims(op.dims), places(op.dims, call.context(), op.ring_step), scale(score_scale<T>(op.dims)), op_(op), call_(call),
        dropout_(call.context(), op.site, op.dropout) {}

  // s[k] = scale q k^T + bias for the keys seen.
  void scores(const T* q, const Turned<T>& keys, std::int64_t head, std::int64_t query, T* s) const {
    std::fill_n(s, places.visible(query), T{0});
    add_products(q, keys, query, scale, s);
    if (!op_.alibi) return;
    const T slope = static_cast<T>(alibi_slope(places.head(head), places.heads()));
    each_run(query, [&](std::int64_t first, std::int64_t n, std::int64_t position) {
      const auto distance = static_cast<int>(position - places.position(query));
      each(n, [=, at = s + first](std::int64_t k) { at[k] += slope * static_cast<T>(static_cast<int>(k) + distance); });
    });
  }
  // sum[k] += factor sum_d x[d] rows[d][k] for the keys seen: one product.
  void add_products(const T* x, const Turned<T>& rows, std::int64_t query, T factor, T* sum) const {
    const std::int64_t n = places.visible(query);
    call_.count_product(1, n, dims.head_dim);
    add_rows(sum, n, rows, dims.head_dim, [=](std::int64_t d) { return factor * x[d]; });
  }
  // y[d] = factor sum_k p[k] rows[k][d] over the keys seen: one product.
  void mix(const T* p, const Straight<T>& rows, std::int64_t query, T factor, T* y) const {
    const std::int64_t n = places.visible(query);
    call_.count_product(1, dims.head_dim, n);
    std::fill_n(y, dims.head_dim, T{0});
    add_rows(y, dims.head_dim, rows, n, [=](std::int64_t k) { return factor * p[k]; });
  }
  // rows[d][k] += factor x[d] p[k] for the keys seen: one product.
  void spread(const T* x, const T* p, std::int64_t query, T factor, Turned<T>& rows) const {
    const std::int64_t n = places.visible(query);
    call_.count_product(dims.head_dim, n, 1);
    for (std::int64_t d = 0; d < dims.head_dim; ++d)
      each(n, [=, f = factor * x[d], to = rows.row(d)](std::int64_t k) { to[k] += f * p[k]; });
  }
  // body(k, factor) with the masks of the keys seen.
  template <class F>
  void each_mask(std::int64_t sequence, std::int64_t head, std::int64_t query, F body) const {
    const std::uint64_t index = places.mask_index(sequence, head, query);
    each_run(query, [&](std::int64_t first, std::int64_t n, std::int64_t position) {
      dropout_.each(index + static_cast<std::uint64_t>(position), n,
                    [=](std::int64_t k, T factor) { body(first + k, factor); });
    });
  }
  std::int64_t statistic(std::int64_t sequence, std::int64_t head, std::int64_t query) const {
    return (sequence * dims.heads + head) * dims.seq + query;
  }

  const AttentionDims& dims;
  const AttentionPlaces places;
  const T scale;

 private:
  // body(first key, count, position of the first) for the keys seen.
  template <class F>
  void each_run(std::int64_t query, F body) const {
    const std::int64_t n = places.visible(query);
    for (const KeyRun& run : places.key_runs())
      if (n > run.first) body(run.first, std::min(run.count, n - run.first), run.position);
  }

  const Op& op_;
  Call& call_;
  Dropout<T> dropout_;
};

// One head's context of one query and the logarithm of its sum of exponentials.
template <class T>
struct Result {
  T* context;
  T* stat;
  std::int64_t head_dim;

  // What the keys seen here give: weights[k] not yet divided by `sum`, and `top` taken off their scores.
  void write(const T* part, T sum, T top) const {
    for (std::int64_t d = 0; d < head_dim; ++d) context[d] = part[d] / sum;
    *stat = top + std::log(sum);
  }
  // The same beside what other keys have given.
  void merge(const T* part, T sum, T top) const {
    const T here = top + std::log(sum), most = std::max(here, *stat);
    const T before = std::exp(*stat - most), now = std::exp(here - most), all = before + now;
    for (std::int64_t d = 0; d < head_dim; ++d) context[d] = (context[d] * before + part[d] / sum * now) / all;
    *stat = most + std::log(all);
  }
  void nothing() const {
    std::fill_n(context, head_dim, T{0});
    *stat = -std::numeric_limits<T>::infinity();
  }
};

template <class T>
class Forward {
 public:
  Forward(const FlashAttention& op, Call& call)
      : op_(op), rows_(op, call), q_(call.in<T>(0)), kv_(call.in<T>(1)), context_(call.out<T>(0)), stats_(call.out<T>(1)),
        weights_(static_cast<std::size_t>(op.dims.key_count())), part_(static_cast<std::size_t>(op.dims.head_dim)) {}

  void run() {
    const std::int64_t per_group = rows_.places.queries_of_group();
    for (std::int64_t s = 0; s < op_.dims.batch; ++s)
      for (std::int64_t g = 0; g < op_.dims.groups(); ++g) {
        const Turned<T> keys(kv_, rows_.places.key(s, g), op_.dims.head_dim);
        const Straight<T> values(kv_, rows_.places.value(s, g), op_.dims.head_dim);
        for (std::int64_t h = g * per_group; h < (g + 1) * per_group; ++h) head(s, h, keys, values);
      }
  }

 private:
  void head(std::int64_t s, std::int64_t h, const Turned<T>& keys, const Straight<T>& values) {
    const HeadRows query = rows_.places.query(s, h), context = rows_.places.context(s, h);
    for (std::int64_t i = 0; i < op_.dims.seq; ++i) {
      const Result<T> to{context_ + context.at(i), stats_ + rows_.statistic(s, h, i), op_.dims.head_dim};
      const std::int64_t n = rows_.places.visible(i);
      if (n > 0)
        row(s, h, i, q_ + query.at(i), keys, values, to);
      else if (op_.ring_step <= 0)
        to.nothing();
    }
  }
  void row(std::int64_t s, std::int64_t h, std::int64_t i, const T* q, const Turned<T>& keys, const Straight<T>& values,
           const Result<T>& to) {
    const std::int64_t n = rows_.places.visible(i);
    T* p = weights_.data();
    rows_.scores(q, keys, h, i, p);
    const T top = lane_max<T>(n, -std::numeric_limits<T>::infinity(), [=](std::int64_t k) { return p[k]; });
    each(n, [=](std::int64_t k) { p[k] = exp_saturating(p[k] - top); });
    const T sum = lane_sum<T>(n, [=](std::int64_t k) { return p[k]; });
    if (op_.dropout > 0) rows_.each_mask(s, h, i, [=](std::int64_t k, T factor) { p[k] *= factor; });
    rows_.mix(p, values, i, T{1}, part_.data());
    op_.ring_step > 0 ? to.merge(part_.data(), sum, top) : to.write(part_.data(), sum, top);
  }

  const FlashAttention& op_;
  Rows<T, FlashAttention> rows_;
  const T *q_, *kv_;
  T *context_, *stats_;
  std::vector<T> weights_, part_;
};

template <class T>
class Backward {
 public:
  Backward(const FlashAttentionBackward& op, Call& call)
      : op_(op), rows_(op, call), dcontext_(call.in<T>(0)), q_(call.in<T>(1)), kv_(call.in<T>(2)), context_(call.in<T>(3)),
        stats_(call.in<T>(4)), dq_(call.out<T>(0)), dkv_(call.out<T>(1)), p_(static_cast<std::size_t>(op.dims.key_count())),
        ds_(p_.size()), part_(static_cast<std::size_t>(op.dims.head_dim)) {}

  void run() {
    for (std::int64_t s = 0; s < op_.dims.batch; ++s)
      for (std::int64_t g = 0; g < op_.dims.groups(); ++g) group(s, g);
  }

 private:
  // A group's keys and values, and their gradients.
  struct Keys {
    Turned<T> keys, values, dkeys, dvalues;
    Straight<T> straight_keys;
  };

  void group(std::int64_t s, std::int64_t g) {
    const std::int64_t per_group = rows_.places.queries_of_group(), dim = op_.dims.head_dim;
    const HeadRows key = rows_.places.key(s, g), value = rows_.places.value(s, g);
    Keys all{{kv_, key, dim}, {kv_, value, dim}, {dim, key.count}, {dim, key.count}, {kv_, key, dim}};
    for (std::int64_t h = g * per_group; h < (g + 1) * per_group; ++h) head(s, h, all);
    all.dkeys.put(dkv_, key, op_.ring_step > 0);
    all.dvalues.put(dkv_, value, op_.ring_step > 0);
  }
  void head(std::int64_t s, std::int64_t h, Keys& all) {
    const HeadRows query = rows_.places.query(s, h), context = rows_.places.context(s, h);
    for (std::int64_t i = 0; i < op_.dims.seq; ++i) {
      std::fill(part_.begin(), part_.end(), T{0});
      if (rows_.places.visible(i) > 0) row(s, h, i, query.at(i), context.at(i), all);
      T* dq = dq_ + query.at(i);
      for (std::int64_t d = 0; d < op_.dims.head_dim; ++d)
        dq[d] = op_.ring_step > 0 ? dq[d] + part_[static_cast<std::size_t>(d)] : part_[static_cast<std::size_t>(d)];
    }
  }
  // With m the mask and c the context: dv += (m p) dc, ds = p (m dp - sum c dc), then dq and dk as of any product.
  void row(std::int64_t s, std::int64_t h, std::int64_t i, std::int64_t query, std::int64_t context, Keys& all) {
    const std::int64_t n = rows_.places.visible(i), dim = op_.dims.head_dim;
    const T *q = q_ + query, *dc = dcontext_ + context, *c = context_ + context;
    T *p = p_.data(), *ds = ds_.data();
    const T total = lane_sum<T>(dim, [=](std::int64_t d) { return c[d] * dc[d]; });
    rows_.scores(q, all.keys, h, i, p);
    each(n, [=, stat = stats_[rows_.statistic(s, h, i)]](std::int64_t k) { p[k] = exp_saturating(p[k] - stat); });
    std::fill_n(ds, n, T{0});
    rows_.add_products(dc, all.values, i, T{1}, ds);
    rows_.each_mask(s, h, i, [=](std::int64_t k, T factor) {
      ds[k] = p[k] * (factor * ds[k] - total);
      p[k] *= factor;
    });
    rows_.spread(dc, p, i, T{1}, all.dvalues);
    rows_.mix(ds, all.straight_keys, i, rows_.scale, part_.data());
    rows_.spread(q, ds, i, rows_.scale, all.dkeys);
  }

  const FlashAttentionBackward& op_;
  Rows<T, FlashAttentionBackward> rows_;
  const T *dcontext_, *q_, *kv_, *context_, *stats_;
  T *dq_, *dkv_;
  std::vector<T> p_, ds_, part_;
};

}  // namespace

template <class T>
void compute(const FlashAttention& op, Call& call) {
  Forward<T>(op, call).run();
}

template <class T>
void compute(const FlashAttentionBackward& op, Call& call) {
  Backward<T>(op, call).run();
}

TANDEM_KERNEL(FlashAttention);
TANDEM_KERNEL(FlashAttentionBackward);

}  // namespace tandem::exec::cpu
