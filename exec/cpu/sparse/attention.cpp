// Attention to chosen keys, one query and head at a time (DeepSeek-V3.2, arXiv 2512.02556 equation 2), and the target distribution
// that an indexer learns. The formulas are those of flash.cpp, over the keys of a list.
#include <cmath>
#include <limits>
#include <vector>

#include "exec/cpu/attention.hpp"
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/sparse/chosen_keys.hpp"
#include "exec/cpu/split.hpp"

namespace tandem::exec::cpu {
namespace {

using List = std::span<const std::int32_t>;

// The rows of a sequence's heads, and its queries' lists.
template <class T>
struct Pairs {
  const AttentionDims& dims;
  AttentionPlaces places;
  KeyLists lists;
  const T *q, *kv;
  T scale;

  Pairs(const AttentionDims& d, Call& call, std::size_t first, std::size_t chosen)
      : dims(d), places(d, call.context()), lists(call.in<std::int32_t>(chosen), d.listed_keys()), q(call.in<T>(first)),
        kv(call.in<T>(first + 1)), scale(score_scale<T>(d)) {
    require(d.causal, "keys are chosen among those up to a query's position");
  }

  List list(std::int64_t sequence, std::int64_t query) const { return lists.of(sequence * dims.seq + query); }
  std::int64_t statistic(std::int64_t sequence, std::int64_t head, std::int64_t query) const {
    return (sequence * dims.heads + head) * dims.seq + query;
  }
  // to[j] = scale * dot(query, key_j) for the keys of a list. `keys`: the key rows of the query's head.
  void scores(const T* query, const HeadRows& keys, List list, T* to) const {
    for (std::size_t j = 0; j < list.size(); ++j) to[j] = scale * dot(dims.head_dim, query, kv + keys.at(list[j]));
  }
};

// One head of one sequence.
struct Head {
  std::int64_t sequence, head;
  HeadRows query, key, value, context;

  Head(const AttentionPlaces& places, std::int64_t s, std::int64_t h)
      : sequence(s), head(h), query(places.query(s, h)), key(places.key(s, h / places.queries_of_group())),
        value(places.value(s, h / places.queries_of_group())), context(places.context(s, h)) {}
};

template <class Op>
void require_plain(const Op& op) {
  require(op.ring_step < 0 && !op.alibi && !op.sinks && op.dropout == 0 && op.soft_cap == 0,
          "attention to chosen keys has neither bias nor sinks, dropout, cap or ring");
}

std::int64_t length(List list) { return static_cast<std::int64_t>(list.size()); }

template <class T>
class Forward {
 public:
  Forward(const FlashAttention& op, Call& call)
      : call_(call), pairs_(op.dims, call, 0, 2), context_(call.out<T>(0)), stats_(call.out<T>(1)) {
    require_plain(op);
  }

  void run() const {
    const AttentionDims& d = pairs_.dims;
    call_.team().split(d.batch * d.heads, 1, [&](std::int64_t first, std::int64_t end) {
      std::vector<T> weights(static_cast<std::size_t>(d.listed_keys()));
      for (std::int64_t i = first; i < end; ++i) head({pairs_.places, i / d.heads, i % d.heads}, weights.data());
    });
  }

 private:
  void head(const Head& at, T* weights) const {
    for (std::int64_t i = 0; i < pairs_.dims.seq; ++i) row(at, i, pairs_.list(at.sequence, i), weights);
  }
  void row(const Head& at, std::int64_t i, List list, T* p) const {
    const std::int64_t n = length(list), wide = pairs_.dims.value_width();
    T* to = context_ + at.context.at(i);
    pairs_.scores(pairs_.q + at.query.at(i), at.key, list, p);
    const T top = lane_max<T>(n, -std::numeric_limits<T>::infinity(), [=](std::int64_t j) { return p[j]; });
    each(n, [=](std::int64_t j) { p[j] = exp_saturating(p[j] - top); });
    const T sum = lane_sum<T>(n, [=](std::int64_t j) { return p[j]; });
    std::fill_n(to, wide, T{0});
    for (std::size_t j = 0; j < list.size(); ++j) add_scaled(wide, p[j] / sum, pairs_.kv + at.value.at(list[j]), to);
    stats_[pairs_.statistic(at.sequence, at.head, i)] = top + std::log(sum);
    call_.count_product(1, n, pairs_.dims.head_dim);
    call_.count_product(1, n, wide);
  }

  Call& call_;
  Pairs<T> pairs_;
  T *context_, *stats_;
};

template <class T>
class Backward {
 public:
  Backward(const FlashAttentionBackward& op, Call& call)
      : call_(call), pairs_(op.dims, call, 1, 5), dcontext_(call.in<T>(0)), context_(call.in<T>(3)), stats_(call.in<T>(4)),
        dq_(call.out<T>(0)), dkv_(call.out<T>(1)) {
    require_plain(op);
  }

  // Heads that share keys run consecutively on one thread, so their gradients are summed in a fixed order.
  void run() const {
    const AttentionDims& d = pairs_.dims;
    call_.team().split(d.batch * d.groups(), 1, [&](std::int64_t first, std::int64_t end) {
      std::vector<T> p(static_cast<std::size_t>(d.listed_keys()));
      for (std::int64_t i = first; i < end; ++i) group(i / d.groups(), i % d.groups(), p.data());
    });
  }

 private:
  void group(std::int64_t s, std::int64_t g, T* p) const {
    const std::int64_t heads = pairs_.places.queries_of_group();
    clear(pairs_.places.key(s, g), pairs_.dims.head_dim);
    clear(pairs_.places.value(s, g), pairs_.dims.value_width());
    for (std::int64_t h = g * heads; h < (g + 1) * heads; ++h) {
      const Head at(pairs_.places, s, h);
      for (std::int64_t i = 0; i < pairs_.dims.seq; ++i) row(at, i, pairs_.list(s, i), p);
    }
  }
  void clear(const HeadRows& rows, std::int64_t width) const {
    for (std::int64_t k = 0; k < rows.count; ++k) std::fill_n(dkv_ + rows.at(k), width, T{0});
  }
  // With context c: dv += p dc, ds = p (dp - c dc); dq and dk follow as for any product.
  void row(const Head& at, std::int64_t i, List list, T* p) const {
    const std::int64_t n = length(list), dim = pairs_.dims.head_dim, wide = pairs_.dims.value_width();
    const T *q = pairs_.q + at.query.at(i), *dc = dcontext_ + at.context.at(i);
    const T total = dot(wide, context_ + at.context.at(i), dc), stat = stats_[pairs_.statistic(at.sequence, at.head, i)];
    T* dq = dq_ + at.query.at(i);
    std::fill_n(dq, dim, T{0});
    pairs_.scores(q, at.key, list, p);
    each(n, [=](std::int64_t j) { p[j] = exp_saturating(p[j] - stat); });
    for (std::size_t j = 0; j < list.size(); ++j) {
      const std::int64_t key = at.key.at(list[j]), value = at.value.at(list[j]);
      const T ds = pairs_.scale * p[j] * (dot(wide, dc, pairs_.kv + value) - total);
      add_scaled(wide, p[j], dc, dkv_ + value);
      add_scaled(dim, ds, pairs_.kv + key, dq);
      add_scaled(dim, ds, q, dkv_ + key);
    }
    call_.count_product(3, n, dim);
    call_.count_product(2, n, wide);
  }

  Call& call_;
  Pairs<T> pairs_;
  const T *dcontext_, *context_, *stats_;
  T *dq_, *dkv_;
};

// Adds a head's probabilities of the keys in a query's list.
template <class T>
void add_probabilities(const Pairs<T>& pairs, const Head& at, std::int64_t i, T stat, T* p, T* to) {
  const List list = pairs.list(at.sequence, i);
  pairs.scores(pairs.q + at.query.at(i), at.key, list, p);
  each(length(list), [=](std::int64_t j) { to[j] += exp_saturating(p[j] - stat); });
}

}  // namespace

template <class T>
void attend_to_chosen(const FlashAttention& op, Call& call) {
  Forward<T>(op, call).run();
}

template <class T>
void attend_to_chosen(const FlashAttentionBackward& op, Call& call) {
  Backward<T>(op, call).run();
}

template <class T>
void compute(const IndexTarget& op, Call& call) {
  const AttentionDims& d = op.dims;
  const Pairs<T> pairs(d, call, 0, 3);
  const T* stats = call.in<T>(2);
  T* target = call.out<T>(0);
  const std::int64_t listed = d.listed_keys();
  call.team().split(d.batch * d.seq, call.team().grain(d.heads * listed * d.head_dim), [&](std::int64_t first, std::int64_t end) {
    std::vector<T> p(static_cast<std::size_t>(listed));
    for (std::int64_t row = first; row < end; ++row) {
      const std::int64_t s = row / d.seq, i = row % d.seq;
      std::fill_n(target + row * listed, listed, T{0});
      for (std::int64_t h = 0; h < d.heads; ++h)
        add_probabilities(pairs, {pairs.places, s, h}, i, stats[pairs.statistic(s, h, i)], p.data(), target + row * listed);
      call.count_product(d.heads, length(pairs.list(s, i)), d.head_dim);
    }
  });
}

template void attend_to_chosen<float>(const FlashAttention&, Call&);
template void attend_to_chosen<double>(const FlashAttention&, Call&);
template void attend_to_chosen<float>(const FlashAttentionBackward&, Call&);
template void attend_to_chosen<double>(const FlashAttentionBackward&, Call&);
TANDEM_KERNEL(IndexTarget);

}  // namespace tandem::exec::cpu
