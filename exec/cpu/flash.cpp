// Attention without stored scores, one block of queries at a time (Dao et al., arXiv 2205.14135, algorithms 1 and 4), and the steps
// of ring attention (Liu et al., arXiv 2310.01889).
#include <cmath>
#include <limits>
#include <vector>

#include "exec/cpu/attention.hpp"
#include "exec/cpu/dropout.hpp"
#include "exec/cpu/head_matrix.hpp"
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/scratch.hpp"
#include "exec/cpu/split.hpp"
#include "exec/shared/alibi.hpp"
#include "exec/shared/soft_cap.hpp"
#include "exec/shared/vector_math.hpp"

namespace tandem::exec::cpu {
namespace {

// Large enough for full speed of a block's products, small enough that a causal block computes few invisible pairs.
constexpr std::int64_t kBlock = 64;

// Queries [first, first + count) of a head, and the keys [from, keys) that any of them can see.
struct Block {
  std::int64_t first, count, from, keys;

  std::int64_t width() const { return keys - from; }
};

// A block of queries of one head of one sequence.
struct Place {
  std::int64_t sequence, head;
  Block block;
};

// One query of a head, and the keys [from, end) that it sees; none if end is not above from.
struct Query {
  std::int64_t sequence, head, at, from, end;

  std::int64_t seen() const { return std::max<std::int64_t>(0, end - from); }
};

// Shared by forward and backward pass: one (sequence, head), block by block.
template <class T, class Op>
class Rows {
 public:
  Rows(const Op& op, Call& call)
      : dims(op.dims), places(op.dims, call.context(), op.ring_step), scale(score_scale<T>(op.dims)), op_(op), call_(call),
        dropout_(call.context(), op.site, op.dropout) {}

  template <class F>
  void each_block(std::int64_t sequence, F body) const {
    for (std::int64_t first = 0; first < dims.seq; first += kBlock) {
      const std::int64_t count = std::min(kBlock, dims.seq - first);
      body(Block{first, count, places.first_visible(sequence, first), places.visible(first + count - 1)});
    }
  }
  Query query(const Place& place, std::int64_t i) const {
    const std::int64_t at = place.block.first + i;
    return {place.sequence, place.head, at, places.first_visible(place.sequence, at), places.visible(at)};
  }
  // Scratch memory for a matrix [queries of a block, keys].
  ScratchArray<T> block_scores() const { return ScratchArray<T>(std::min(kBlock, dims.seq) * dims.key_count()); }
  std::int64_t stride() const { return dims.key_count(); }

  // matrix[i,k] = factor rows[i] of_keys[k]^T for the block's queries and keys; vectors have `dim` elements.
  void write_by_key(const Block& b, std::int64_t dim, Factor<T> rows, HeadMatrix<const T>& of_keys, T factor, T* matrix) const {
    multiply(Product<T>{b.count, b.width(), dim, rows, of_keys.factor(true, b.from), matrix + b.from, stride(), factor});
  }
  // Zeroes the block's keys that a query does not see. `row`: the query's matrix row from key 0 on.
  void clear_unseen(const Block& b, const Query& q, T* row) const {
    if (q.seen() == 0) return std::fill(row + b.from, row + b.keys, T{0});
    std::fill(row + b.from, row + q.from, T{0});
    std::fill(row + q.end, row + b.keys, T{0});
  }
  // Applies the soft cap to s[k] for visible keys. Multiplies `slopes`, if given, by the cap's derivative.
  void cap_scores(const Query& q, T* s, T* slopes = nullptr) const {
    if (op_.soft_cap == 0) return;
    const SoftCapOf<T> cap{static_cast<T>(op_.soft_cap)};
    const std::int64_t from = q.from, n = q.seen();
    each(n, [=, at = s + from](std::int64_t k) { at[k] = cap.value(at[k]); });
    if (slopes != nullptr) each(n, [=, at = s + from, to = slopes + from](std::int64_t k) { to[k] = cap.slope(at[k]); });
  }
  // s[k] += ALiBi bias for visible keys.
  void add_bias(const Query& q, T* s) const {
    if (!op_.alibi) return;
    const T slope = static_cast<T>(alibi_slope(places.head(q.head), places.heads()));
    each_run(q, [&](std::int64_t first, std::int64_t n, std::int64_t position) {
      const auto distance = static_cast<int>(position - places.position(q.at));
      each(n, [=, at = s + first](std::int64_t k) { at[k] += slope * static_cast<T>(static_cast<int>(k) + distance); });
    });
  }
  // Counts the FLOPs of `with_keys` products with keys and `with_values` products with values, each over `seen` keys.
  void count(std::int64_t with_keys, std::int64_t with_values, std::int64_t seen) const {
    call_.count_product(with_keys, seen, dims.head_dim);
    call_.count_product(with_values, seen, dims.value_width());
  }
  // Calls body(k, factor) with the dropout factors of the visible keys.
  template <class F>
  void each_mask(const Query& q, F body) const {
    const std::uint64_t index = places.mask_index(q.sequence, q.head, q.at);
    each_run(q, [&](std::int64_t first, std::int64_t n, std::int64_t position) {
      dropout_.each(index + static_cast<std::uint64_t>(position), n,
                    [=](std::int64_t k, T factor) { body(first + k, factor); });
    });
  }
  std::int64_t statistic(std::int64_t sequence, std::int64_t head, std::int64_t query) const {
    return (sequence * dims.heads + head) * dims.seq + query;
  }

  // Calls body(state, sequence, group) for groups of heads that share keys. The rank's threads share the groups; each range has its
  // own state. With `in_order`, one thread takes a group's sequences in order.
  template <class Make, class F>
  void each_group(bool in_order, Make make, F body) const {
    const std::int64_t groups = dims.groups(), each = in_order ? dims.batch : 1;
    call_.team().split(dims.batch * groups / each, 1, [&](std::int64_t first, std::int64_t end) {
      auto state = make();
      for (std::int64_t i = first; i < end; ++i)
        for (std::int64_t s = 0; s < each; ++s) body(state, i / groups + s, i % groups);
    });
  }

  const AttentionDims& dims;
  const AttentionPlaces places;
  const T scale;

 private:
  // Calls body(first key, count, position of the first key) for the visible keys.
  template <class F>
  void each_run(const Query& q, F body) const {
    for (const KeyRun& run : places.key_runs()) {
      const std::int64_t first = std::max(run.first, q.from), end = std::min(run.first + run.count, q.end);
      if (end > first) body(first, end - first, run.position + first - run.first);
    }
  }

  const Op& op_;
  Call& call_;
  Dropout<T> dropout_;
};

// A head's context of one query, and its log-sum-exp.
template <class T>
struct Result {
  T* context;
  T* stat;
  std::int64_t dim;

  // Writes the result of the keys here: `part` still needs division by `sum`; `top` was subtracted from the scores.
  void write(const T* part, T sum, T top) const {
    for (std::int64_t d = 0; d < dim; ++d) context[d] = part[d] / sum;
    *stat = top + std::log(sum);
  }
  // write(), merged with the result of other keys.
  void merge(const T* part, T sum, T top) const {
    const T here = top + std::log(sum), most = std::max(here, *stat);
    const T before = std::exp(*stat - most), now = std::exp(here - most), all = before + now;
    for (std::int64_t d = 0; d < dim; ++d) context[d] = (context[d] * before + part[d] / sum * now) / all;
    *stat = most + std::log(all);
  }
  void nothing() const {
    std::fill_n(context, dim, T{0});
    *stat = -std::numeric_limits<T>::infinity();
  }
};

template <class T>
class Forward {
 public:
  Forward(const FlashAttention& op, Call& call)
      : op_(op), rows_(op, call), q_(call.in<T>(0)), kv_(call.in<T>(1)), context_(call.out<T>(0)), stats_(call.out<T>(1)),
        sinks_(op.sinks ? call.in<T>(2) : nullptr) {}

  void run() const {
    const auto make = [&] {
      return Buffers{rows_.block_scores(), ScratchArray<T>(kBlock * op_.dims.value_width()), std::vector<Sum>(kBlock)};
    };
    rows_.each_group(false, make, [&](Buffers& buffers, std::int64_t s, std::int64_t g) { group(s, g, buffers); });
  }

 private:
  struct Keys {
    HeadMatrix<const T> keys, values;
  };
  // The value subtracted from a query's scores, and the sum of the exponentials.
  struct Sum {
    T top, sum;
  };

  // Scratch memory of a thread: weights and mixed values of a block's queries, and their sums.
  struct Buffers {
    ScratchArray<T> weights, parts;
    std::vector<Sum> sums;
  };

  void group(std::int64_t s, std::int64_t g, Buffers& buffers) const {
    const std::int64_t per_group = rows_.places.queries_of_group();
    Keys all{{kv_, rows_.places.key(s, g), op_.dims.head_dim}, {kv_, rows_.places.value(s, g), op_.dims.value_width()}};
    for (std::int64_t h = g * per_group; h < (g + 1) * per_group; ++h) head(s, h, all, buffers);
  }
  void head(std::int64_t s, std::int64_t h, Keys& all, Buffers& buffers) const {
    HeadMatrix<const T> queries(q_, rows_.places.query(s, h), op_.dims.head_dim);
    const HeadRows context = rows_.places.context(s, h);
    rows_.each_block(s, [&](const Block& b) {
      if (b.width() > 0) weigh({s, h, b}, queries, all, buffers);
      for (std::int64_t i = 0; i < b.count; ++i) {
        const Query query = rows_.query({s, h, b}, i);
        const Result<T> to{context_ + context.at(query.at), stats_ + rows_.statistic(s, h, query.at), op_.dims.value_width()};
        if (query.seen() > 0) put(buffers, i, to);
        else if (op_.ring_step <= 0) to.nothing();
      }
    });
  }
  // Computes the mixed values of a block's queries.
  void weigh(const Place& at, HeadMatrix<const T>& queries, Keys& all, Buffers& buffers) const {
    const Block& b = at.block;
    rows_.write_by_key(b, op_.dims.head_dim, queries.factor(false, b.first), all.keys, rows_.scale, buffers.weights.data());
    for (std::int64_t i = 0; i < b.count; ++i)
      buffers.sums[static_cast<std::size_t>(i)] = row(at, i, buffers.weights.data() + i * rows_.stride());
    multiply(Product<T>{b.count, op_.dims.value_width(), b.width(), {buffers.weights.data() + b.from, rows_.stride()},
                        all.values.factor(false, b.from), buffers.parts.data(), op_.dims.value_width()});
  }
  // Turns a query's scores into weights, not yet divided by their sum.
  Sum row(const Place& at, std::int64_t i, T* row) const {
    const Query query = rows_.query(at, i);
    const std::int64_t n = query.seen();
    T* p = row + query.from;
    rows_.count(1, 1, n);
    rows_.cap_scores(query, row);
    rows_.add_bias(query, row);
    const T none = -std::numeric_limits<T>::infinity(), sink = sinks_ == nullptr ? none : sinks_[rows_.places.rank_head(at.head)];
    const T top = std::max(sink, lane_max<T>(n, none, [=](std::int64_t k) { return p[k]; }));
    each(n, [=](std::int64_t k) { p[k] = exp_saturating(p[k] - top); });
    T sum = lane_sum<T>(n, [=](std::int64_t k) { return p[k]; });
    if (sinks_ != nullptr) sum += std::exp(sink - top);
    if (op_.dropout > 0) rows_.each_mask(query, [=](std::int64_t k, T factor) { row[k] *= factor; });
    rows_.clear_unseen(at.block, query, row);
    return {top, sum};
  }
  void put(const Buffers& buffers, std::int64_t i, const Result<T>& to) const {
    const T* part = buffers.parts.data() + i * op_.dims.value_width();
    const auto [top, sum] = buffers.sums[static_cast<std::size_t>(i)];
    op_.ring_step > 0 ? to.merge(part, sum, top) : to.write(part, sum, top);
  }

  const FlashAttention& op_;
  Rows<T, FlashAttention> rows_;
  const T *q_, *kv_;
  T *context_, *stats_;
  const T* sinks_;
};

template <class T>
class Backward {
 public:
  Backward(const FlashAttentionBackward& op, Call& call)
      : op_(op), rows_(op, call), dcontext_(call.in<T>(0)), q_(call.in<T>(1)), kv_(call.in<T>(2)), context_(call.in<T>(3)),
        stats_(call.in<T>(4)), dq_(call.out<T>(0)), dkv_(call.out<T>(1)), sinks_(op.sinks ? call.in<T>(5) : nullptr),
        dsinks_(op.sinks ? call.out<T>(2) : nullptr) {
    require(!op.sinks || op.ring_step <= 0, "sinks join once");
    if (op.sinks) std::fill_n(dsinks_, rows_.places.rank_heads(), T{0});
  }

  // A sink's gradient is a sum over sequences, so they run in order.
  void run() const {
    const auto make = [&] {
      return Buffers{rows_.block_scores(), rows_.block_scores(), ScratchArray<T>(op_.soft_cap > 0 ? op_.dims.key_count() : 0)};
    };
    rows_.each_group(op_.sinks, make, [&](Buffers& buffers, std::int64_t s, std::int64_t g) { group(s, g, buffers); });
  }

 private:
  // Keys and values of a group and their gradients, one row per key.
  struct Keys {
    HeadMatrix<const T> keys, values;
    ScratchArray<T> dkeys, dvalues;
  };
  // Scratch memory of a thread: probabilities, score gradients, and derivatives of the soft cap.
  struct Buffers {
    ScratchArray<T> p, ds, slopes;
  };
  // The per-query operands of one head.
  struct Queries {
    HeadMatrix<const T> q, dcontext, context;
  };

  // A block's inputs and the gradients it writes.
  struct Operands {
    Queries& in;
    Keys& all;
    HeadMatrix<T>& dq;
  };

  void group(std::int64_t s, std::int64_t g, const Buffers& buffers) const {
    const std::int64_t per_group = rows_.places.queries_of_group(), dim = op_.dims.head_dim, wide = op_.dims.value_width();
    const HeadRows key = rows_.places.key(s, g), value = rows_.places.value(s, g);
    Keys all{{kv_, key, dim}, {kv_, value, wide}, ScratchArray<T>(key.count * dim), ScratchArray<T>(key.count * wide)};
    std::fill_n(all.dkeys.data(), key.count * dim, T{0});
    std::fill_n(all.dvalues.data(), key.count * wide, T{0});
    for (std::int64_t h = g * per_group; h < (g + 1) * per_group; ++h) head(s, h, all, buffers);
    put(all.dkeys, dim, key);
    put(all.dvalues, wide, value);
  }
  void put(const ScratchArray<T>& rows, std::int64_t dim, const HeadRows& to) const {
    const bool add = op_.ring_step > 0;
    for (std::int64_t k = 0; k < to.count; ++k) {
      T* at = dkv_ + to.at(k);
      each(dim, [=, from = rows.data() + k * dim](std::int64_t d) { at[d] = add ? at[d] + from[d] : from[d]; });
    }
  }
  void head(std::int64_t s, std::int64_t h, Keys& all, const Buffers& buffers) const {
    const HeadRows query = rows_.places.query(s, h), context = rows_.places.context(s, h);
    const std::int64_t dim = op_.dims.head_dim, wide = op_.dims.value_width();
    Queries in{{q_, query, dim}, {dcontext_, context, wide}, {context_, context, wide}};
    HeadMatrix<T> dq(dq_, query, dim);
    rows_.each_block(s, [&](const Block& b) {
      if (b.width() > 0) return block({s, h, b}, {in, all, dq}, buffers);
      if (op_.ring_step <= 0)
        for (std::int64_t i = 0; i < b.count; ++i) std::fill_n(dq.row(b.first + i), dim, T{0});
    });
    dq.put();
  }
  // With mask m and context c: dv += (m p) dc, ds = p (m dp - sum c dc); dq and dk follow as for any product.
  void block(const Place& at, const Operands& of, const Buffers& buffers) const {
    const Block& b = at.block;
    auto& [in, all, dq] = of;
    const Factor<T> q = in.q.factor(false, b.first), dc = in.dcontext.factor(false, b.first);
    const std::int64_t dim = op_.dims.head_dim, wide = op_.dims.value_width();
    rows_.write_by_key(b, dim, q, all.keys, rows_.scale, buffers.p.data());
    rows_.write_by_key(b, wide, dc, all.values, T{1}, buffers.ds.data());
    for (std::int64_t i = 0; i < b.count; ++i) row(at, i, in, buffers);
    add_by_key(b, wide, buffers.p.data(), dc, T{1}, all.dvalues);
    add_by_key(b, dim, buffers.ds.data(), q, rows_.scale, all.dkeys);
    multiply(Product<T>{b.count, dim, b.width(), {buffers.ds.data() + b.from, rows_.stride()},
                        all.keys.factor(false, b.from), dq.row(b.first), dq.stride(), rows_.scale, op_.ring_step > 0});
  }
  void row(const Place& place, std::int64_t i, Queries& in, const Buffers& buffers) const {
    const Query query = rows_.query(place, i);
    const std::int64_t from = query.from, n = query.seen(), stat_at = rows_.statistic(place.sequence, place.head, query.at);
    T *p = buffers.p.data() + i * rows_.stride(), *ds = buffers.ds.data() + i * rows_.stride();
    rows_.count(3, 2, n);
    if (n > 0) {
      const T *c = in.context.row(query.at), *dc = in.dcontext.row(query.at);
      const T total = lane_sum<T>(op_.dims.value_width(), [=](std::int64_t d) { return c[d] * dc[d]; });
      rows_.cap_scores(query, p, buffers.slopes.data());
      rows_.add_bias(query, p);
      if (sinks_ != nullptr) add_sink(place.head, stats_[stat_at], total);
      each(n, [=, at = p + from, stat = stats_[stat_at]](std::int64_t k) {
        at[k] = exp_saturating(at[k] - stat);
      });
      rows_.each_mask(query, [=](std::int64_t k, T factor) {
        ds[k] = p[k] * (factor * ds[k] - total);
        p[k] *= factor;
      });
      if (op_.soft_cap > 0) each(n, [=, at = ds + from, by = buffers.slopes.data() + from](std::int64_t k) { at[k] *= by[k]; });
    }
    rows_.clear_unseen(place.block, query, p);
    rows_.clear_unseen(place.block, query, ds);
  }
  // A sink has probability exp(sink - stat) and no value.
  void add_sink(std::int64_t h, T stat, T total) const {
    const std::int64_t at = rows_.places.rank_head(h);
    dsinks_[at] -= std::exp(sinks_[at] - stat) * total;
  }
  // sum[k] += factor * (sum over queries i of matrix[i,k] rows[i]).
  void add_by_key(const Block& b, std::int64_t dim, const T* matrix, Factor<T> rows, T factor, const ScratchArray<T>& sum) const {
    T* to = sum.data() + b.from * dim;
    multiply(Product<T>{b.width(), dim, b.count, {matrix + b.from, rows_.stride(), true}, rows, to, dim, factor, true});
  }

  const FlashAttentionBackward& op_;
  Rows<T, FlashAttentionBackward> rows_;
  const T *dcontext_, *q_, *kv_, *context_, *stats_;
  T *dq_, *dkv_;
  const T* sinks_;
  T* dsinks_;
};

}  // namespace

template <class T>
void compute(const FlashAttention& op, Call& call) {
  op.chosen ? attend_to_chosen<T>(op, call) : Forward<T>(op, call).run();
}

template <class T>
void compute(const FlashAttentionBackward& op, Call& call) {
  op.chosen ? attend_to_chosen<T>(op, call) : Backward<T>(op, call).run();
}

TANDEM_KERNEL(FlashAttention);
TANDEM_KERNEL(FlashAttentionBackward);

}  // namespace tandem::exec::cpu
