// The indexer of sparse attention (DeepSeek-V3.2, arXiv 2512.02556 equations 1 and 4). Its scale is that of
// deepseek-ai/DeepSeek-V3.2-Exp, inference/model.py, Indexer: 1 / sqrt(heads * head_dim).
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "exec/cpu/attention.hpp"
#include "exec/cpu/head_matrix.hpp"
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/scratch.hpp"
#include "exec/cpu/sparse/chosen_keys.hpp"
#include "exec/cpu/split.hpp"

namespace tandem::exec::cpu {
namespace {

// Where a context rank's queries and keys are stored.
struct Places {
  const IndexDims& dims;
  std::int64_t shards;
  SequenceMap own;
  std::int64_t rank;

  Places(const IndexDims& d, const KernelContext& context)
      : dims(d), shards(d.keys > 0 ? context.context_size : 1), own(shards, d.seq), rank(shards > 1 ? context.context_rank : 0) {
    require(d.key_count() == shards * d.seq, "an indexer's keys are those of all context ranks");
  }

  HeadRows keys(std::int64_t sequence) const {
    return {RowOrder(dims.batch, dims.key_count(), shards), sequence, dims.key_count(), dims.head_dim, 0};
  }
  // Number of keys up to a query's position.
  std::int64_t visible(std::int64_t query) const { return own.position(rank, query) + 1; }
};

// A factor on all scores. It does not affect the choice.
template <class T>
T score_factor(const IndexDims& d) {
  return static_cast<T>(1 / std::sqrt(static_cast<double>(d.heads * d.head_dim)));
}

// The positions of the best of `n` scores, ascending. Of equal scores the lower position wins; NaN is worst.
template <class T>
void choose(T* scores, std::int64_t n, std::int64_t listed, std::vector<std::int32_t>& order, std::int32_t* to) {
  for (std::int64_t k = 0; k < n; ++k)
    if (std::isnan(scores[k])) scores[k] = -std::numeric_limits<T>::infinity();
  const std::int64_t taken = std::min(n, listed);
  order.resize(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const auto better = [=](std::int32_t a, std::int32_t b) { return scores[a] > scores[b] || (scores[a] == scores[b] && a < b); };
  if (taken < n) std::nth_element(order.begin(), order.begin() + taken, order.end(), better);
  std::sort(order.begin(), order.begin() + taken);
  std::copy_n(order.begin(), taken, to);
  std::fill(to + taken, to + listed, -1);
}

template <class T>
class Chooser {
 public:
  Chooser(const IndexTopK& op, Call& call)
      : dims_(op.dims), places_(op.dims, call.context()), call_(call), q_(call.in<T>(0)), k_(call.in<T>(1)), w_(call.in<T>(2)),
        chosen_(call.out<std::int32_t>(0)) {}

  // Multiplies some queries at a time with all keys, for all heads together.
  void run() const {
    const std::int64_t block = std::max<std::int64_t>(1, kProductRows / dims_.heads), blocks = (dims_.seq + block - 1) / block;
    for (std::int64_t s = 0; s < dims_.batch; ++s) {
      HeadMatrix<const T> keys(k_, places_.keys(s), dims_.head_dim);
      call_.team().split(blocks, 1, [&](std::int64_t first, std::int64_t end) {
        Buffers buffers{ScratchArray<T>(block * dims_.heads * dims_.key_count()), ScratchArray<T>(dims_.key_count()), {}};
        for (std::int64_t b = first; b < end; ++b) some(s, b * block, std::min(dims_.seq, (b + 1) * block), keys, buffers);
      });
    }
  }

 private:
  static constexpr std::int64_t kProductRows = 64;

  // Scratch memory of a thread: products, scores, and positions to order.
  struct Buffers {
    ScratchArray<T> products, scores;
    std::vector<std::int32_t> order;
  };

  void some(std::int64_t s, std::int64_t first, std::int64_t end, HeadMatrix<const T>& keys, Buffers& buffers) const {
    const std::int64_t heads = dims_.heads, dim = dims_.head_dim, row = s * dims_.seq + first, all = dims_.key_count();
    std::int64_t most = 0;
    for (std::int64_t i = first; i < end; ++i) most = std::max(most, places_.visible(i));
    T* products = buffers.products.data();
    multiply(Product<T>{(end - first) * heads, most, dim, {q_ + row * heads * dim, dim}, keys.factor(true), products, all});
    for (std::int64_t i = first; i < end; ++i) one(s, i, products + (i - first) * heads * all, buffers);
  }
  void one(std::int64_t s, std::int64_t query, const T* products, Buffers& buffers) const {
    const std::int64_t row = s * dims_.seq + query, n = places_.visible(query);
    T* scores = buffers.scores.data();
    std::fill_n(scores, n, T{0});
    for (std::int64_t h = 0; h < dims_.heads; ++h)
      each(n, [=, p = products + h * dims_.key_count(), w = w_[row * dims_.heads + h]](std::int64_t k) {
        scores[k] += w * (p[k] > 0 ? p[k] : T{0});
      });
    choose(scores, n, dims_.listed(), buffers.order, chosen_ + row * dims_.listed());
    call_.count_product(dims_.heads, n, dims_.head_dim);
  }

  const IndexDims& dims_;
  Places places_;
  Call& call_;
  const T *q_, *k_, *w_;
  std::int32_t* chosen_;
};

template <class T>
class Learner {
 public:
  Learner(const IndexTopKBackward& op, Call& call)
      : dims_(op.dims), places_(op.dims, call.context()), call_(call), lists_(call.in<std::int32_t>(4), op.dims.listed()),
        target_(call.in<T>(0)), q_(call.in<T>(1)), k_(call.in<T>(2)), w_(call.in<T>(3)), dq_(call.out<T>(0)), dk_(call.out<T>(1)),
        dw_(call.out<T>(2)), share_(static_cast<T>(call.table().loss_scale / static_cast<double>(op.global_queries))) {}

  // First, per row: gradients of queries, weights and products. Then gradients of keys as sums over rows; threads share columns.
  void run() const {
    const std::int64_t each = dims_.heads * dims_.listed();
    const ScratchArray<T> slopes(dims_.seq * each);
    for (std::int64_t s = 0; s < dims_.batch; ++s) {
      const HeadRows keys = places_.keys(s);
      call_.team().split(dims_.seq, call_.team().grain(each * dims_.head_dim), [&](std::int64_t first, std::int64_t end) {
        Buffers buffers(dims_.listed());
        for (std::int64_t i = first; i < end; ++i) query(s * dims_.seq + i, keys, slopes.data() + i * each, buffers);
      });
      each_columns(call_, dims_.seq * each, dims_.head_dim, [&](std::int64_t first, std::int64_t end) {
        for (std::int64_t k = 0; k < keys.count; ++k) std::fill(dk_ + keys.at(k) + first, dk_ + keys.at(k) + end, T{0});
        for (std::int64_t i = 0; i < dims_.seq; ++i) add_keys(s * dims_.seq + i, keys, slopes.data() + i * each, first, end);
      });
    }
  }

 private:
  // Scratch memory: the scores of a list's keys, then their gradients.
  struct Buffers {
    std::vector<T> scores;
    explicit Buffers(std::int64_t listed) : scores(static_cast<std::size_t>(listed)) {}
  };

  // slopes[h, j]: product of head h and key j, replaced by its gradient.
  void query(std::int64_t row, const HeadRows& keys, T* slopes, Buffers& buffers) const {
    const auto list = lists_.of(row);
    const auto n = static_cast<std::int64_t>(list.size());
    const std::int64_t heads = dims_.heads, dim = dims_.head_dim, listed = dims_.listed();
    T* ds = buffers.scores.data();
    std::fill_n(ds, n, T{0});
    for (std::int64_t h = 0; h < heads; ++h) {
      T* p = slopes + h * listed;
      for (std::size_t j = 0; j < list.size(); ++j) p[j] = dot(dim, q_ + (row * heads + h) * dim, k_ + keys.at(list[j]));
      each(n, [=, w = w_[row * heads + h]](std::int64_t j) { ds[j] += w * (p[j] > 0 ? p[j] : T{0}); });
    }
    score_gradients(target_ + row * listed, n, ds);
    for (std::int64_t h = 0; h < heads; ++h) head(row, h, keys, ds, slopes + h * listed);
    call_.count_product(3 * heads, n, dim);
  }
  // Replaces sums over heads by their gradients: softmax minus target, scaled.
  void score_gradients(const T* target, std::int64_t n, T* s) const {
    const T factor = score_factor<T>(dims_);
    const T top = factor * lane_max<T>(n, -std::numeric_limits<T>::infinity(), [=](std::int64_t j) { return s[j]; });
    each(n, [=](std::int64_t j) { s[j] = exp_saturating(factor * s[j] - top); });
    const T sum = lane_sum<T>(n, [=](std::int64_t j) { return s[j]; });
    const T all = lane_sum<T>(n, [=](std::int64_t j) { return target[j]; });
    each(n, [=, slope = share_ * factor](std::int64_t j) { s[j] = slope * (s[j] / sum - target[j] / all); });
  }
  void head(std::int64_t row, std::int64_t h, const HeadRows& keys, const T* ds, T* p) const {
    const auto list = lists_.of(row);
    const auto n = static_cast<std::int64_t>(list.size());
    const std::int64_t at = row * dims_.heads + h, dim = dims_.head_dim;
    const T w = w_[at];
    dw_[at] = lane_sum<T>(n, [=](std::int64_t j) { return ds[j] * (p[j] > 0 ? p[j] : T{0}); });
    each(n, [=](std::int64_t j) { p[j] = p[j] > 0 ? ds[j] * w : T{0}; });
    std::fill_n(dq_ + at * dim, dim, T{0});
    for (std::size_t j = 0; j < list.size(); ++j) add_scaled(dim, p[j], k_ + keys.at(list[j]), dq_ + at * dim);
  }
  // Adds columns [first, end) of a query's terms to its keys' gradients.
  void add_keys(std::int64_t row, const HeadRows& keys, const T* slopes, std::int64_t first, std::int64_t end) const {
    const auto list = lists_.of(row);
    for (std::int64_t h = 0; h < dims_.heads; ++h)
      for (std::size_t j = 0; j < list.size(); ++j)
        add_scaled(end - first, slopes[h * dims_.listed() + static_cast<std::int64_t>(j)],
                   q_ + (row * dims_.heads + h) * dims_.head_dim + first, dk_ + keys.at(list[j]) + first);
  }

  const IndexDims& dims_;
  Places places_;
  Call& call_;
  KeyLists lists_;
  const T *target_, *q_, *k_, *w_;
  T *dq_, *dk_, *dw_;
  T share_;
};

}  // namespace

template <class T>
void compute(const IndexTopK& op, Call& call) {
  Chooser<T>(op, call).run();
}

template <class T>
void compute(const IndexTopKBackward& op, Call& call) {
  Learner<T>(op, call).run();
}

TANDEM_KERNEL(IndexTopK);
TANDEM_KERNEL(IndexTopKBackward);

}  // namespace tandem::exec::cpu
