// Operations that consist of matrix products.
#include <algorithm>

#include "exec/cpu/attention.hpp"
#include "exec/cpu/column_sums.hpp"
#include "exec/cpu/experts.hpp"
#include "exec/cpu/gemm/gemm.hpp"
#include "exec/cpu/head_matrix.hpp"
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/scratch.hpp"
#include "exec/cpu/split.hpp"
#include "exec/cpu/team_product.hpp"
#include "exec/shared/activations.hpp"
#include "models/ops/column_blocks.hpp"

namespace tandem::exec::cpu {
namespace {

template <class T>
void book_and_multiply(const Product<T>& product, Call& call) {
  call.count_product(product.m, product.n, product.k);
  multiply(product);
}

// As above, on all threads of the rank.
template <class P>
void book_and_share(const P& product, Call& call) {
  call.count_product(product.m, product.n, product.k);
  multiply(call.team(), product);
}

template <class T, class Total>
void add_product(const T* product, std::int64_t elements, Total* total, const Call& call) {
  each(call, elements, [=](std::int64_t i) { total[i] += static_cast<Total>(product[i]); });
}

template <class T>
void add_product(const T* product, std::int64_t elements, DType total, Call& call) {
  if (total == DType::fp64)
    add_product(product, elements, call.out<double>(0), call);
  else
    add_product(product, elements, call.out<float>(0), call);
}

// Calls body(F{}), where F is the storage type of the factors.
template <class T, class Body>
void with_factors(const Call& call, Body body) {
  if constexpr (std::is_same_v<T, float>)
    if (call.dtype_in(0) == DType::bf16) return body(Bf16{});
  body(T{});
}

// A thread's scratch memory for a matrix that is stored in blocks of columns.
template <class T>
T* joined_scratch(std::int64_t elements) {
  thread_local GrowingScratch<T> scratch;
  return scratch.at_least(elements);
}

// Calls body(block's first column, its columns, start of row r in it) for each block of each row of a [rows, cols] matrix.
template <class F>
void each_block_row(const Call& call, const ColumnBlocks& blocks, std::int64_t rows, std::int64_t cols, F body) {
  each_row(call, rows, cols, [&, widths = widths_of(blocks, cols)](std::int64_t r) {
    std::int64_t col = 0;
    for (const std::int64_t width : widths) {
      body(r * cols + col, width, rows * col + r * width);
      col += width;
    }
  });
}

// The stored A, as one matrix.
template <class F>
const F* stored_a(const MatMul& op, const Call& call) {
  const F* a = call.in<F>(0);
  if (!op.blocks.any() || op.trans_b) return a;
  F* const whole = joined_scratch<F>(op.m * op.k);
  each_block_row(call, op.blocks, op.trans_a ? op.k : op.m, op.trans_a ? op.m : op.k,
                 [=](std::int64_t to, std::int64_t n, std::int64_t from) { std::copy_n(a + from, n, whole + to); });
  return whole;
}

template <class T, class F>
Product<T, F> product_of(const MatMul& op, const F* a, const Call& call) {
  const Factor<F> b{call.in<F>(1), op.trans_b ? op.k : op.n, op.trans_b};
  return {op.m, op.n, op.k, {a, op.trans_a ? op.m : op.k, op.trans_a}, b, nullptr, op.n};
}

// Adds a finished product to the old result. It is computed separately, so its bits equal those of a product that overwrites. Hence
// the sum over n micro-batches is equal in sequence and on n ranks.
template <class T, class F>
void matmul_added(const MatMul& op, const F* a, Call& call) {
  require(!op.bias, "a product that accumulates has no bias");
  Product<T, F> product = product_of<T, F>(op, a, call);
  product.c = product_scratch<T>(op.m * op.n);
  book_and_share(product, call);
  add_product(product.c, op.m * op.n, op.total, call);
}

// The attention operands of one (sequence, head) as matrices.
struct Head {
  const AttentionDims& dims;
  const AttentionPlaces& places;
  std::int64_t sequence, head;

  std::int64_t group() const { return head / places.queries_of_group(); }
  template <class T>
  HeadMatrix<T> query(T* q) const {
    return {q, places.query(sequence, head), dims.head_dim};
  }
  template <class T>
  HeadMatrix<T> key(T* kv) const {
    return {kv, places.key(sequence, group()), dims.head_dim};
  }
  template <class T>
  HeadMatrix<T> value(T* kv) const {
    return {kv, places.value(sequence, group()), dims.value_width()};
  }
  // The context, or its gradient.
  template <class T>
  HeadMatrix<T> context(T* data) const {
    return {data, places.context(sequence, head), dims.value_width()};
  }
  // True if an earlier head has written to the gradient of this head's keys and values.
  bool shares_keys_with_earlier() const { return head % places.queries_of_group() != 0; }
  // Scores, probabilities, or their gradients: [seq, keys].
  template <class T>
  T* scores(T* data) const {
    return data + (sequence * dims.heads + head) * dims.seq * dims.key_count();
  }
};

// Heads that share keys run consecutively on one thread.
template <class F>
void for_each_head(const AttentionDims& dims, const Call& call, F body) {
  const AttentionPlaces places(dims, call.context());
  const std::int64_t of_group = places.queries_of_group();
  each_row(call, dims.batch * dims.groups(), of_group * dims.seq * dims.key_count(), [&](std::int64_t i) {
    for (std::int64_t h = 0; h < of_group; ++h) body(Head{dims, places, i / dims.groups(), i % dims.groups() * of_group + h});
  });
}

// The products of one head. S: a matrix like the scores, [seq, keys]. H: [rows, dim], where dim is a key's or value's size.
template <class T>
class HeadProducts {
 public:
  HeadProducts(const AttentionDims& dims, std::int64_t dim, Call& call)
      : seq_(dims.seq), keys_(dims.key_count()), dim_(dim), call_(call) {}

  // S = scale H H^T
  void write_scores(T* scores, T scale, HeadMatrix<const T> queries, HeadMatrix<const T> keys) const {
    book_and_multiply<T>({seq_, keys_, dim_, queries.factor(), keys.factor(true), scores, keys_, scale}, call_);
  }
  // H = scale S H, one row per query.
  void write_by_query(HeadMatrix<T> to, T scale, const T* scores, HeadMatrix<const T> of_keys) const {
    book_and_multiply<T>({seq_, dim_, keys_, {scores, keys_}, of_keys.factor(), to.data(), to.stride(), scale}, call_);
    to.put();
  }
  // H = scale S^T H, or added to H: one row per key.
  void write_by_key(HeadMatrix<T> to, T scale, const T* scores, HeadMatrix<const T> of_queries, bool add) const {
    const Factor<T> turned{scores, keys_, true};
    book_and_multiply<T>({keys_, dim_, seq_, turned, of_queries.factor(), to.data(), to.stride(), scale, add}, call_);
    to.put();
  }

 private:
  std::int64_t seq_, keys_, dim_;
  Call& call_;
};

}  // namespace

/// Applies the activation to a stored product C: gelu(C) as a second output, or C *= gelu'(x).
template <class T>
void activate(const MatMul& op, Call& call) {
  if (op.activation == ProductActivation::none) return;
  call.settle(0);
  T* c = call.out<T>(0);
  if (op.activation == ProductActivation::gelu) {
    T* y = call.out<T>(op.sums ? 2 : 1);
    return each(call, op.m * op.n, [=](std::int64_t i) { y[i] = GeluTanh::value(c[i]); });
  }
  const T* x = call.in<T>(op.bias ? 3 : 2);
  each(call, op.m * op.n, [=](std::int64_t i) { c[i] = c[i] * GeluTanh::derivative(x[i]); });
}

template <class T, class F>
void matmul(const MatMul& op, Call& call) {
  const F* const a = stored_a<F>(op, call);
  if (op.sums) write_column_sums(call, a, op.k, op.m, call.out<T>(1));
  if (op.accumulate) return matmul_added<T, F>(op, a, call);
  Product<T, F> product = product_of<T, F>(op, a, call);
  const bool parted = op.blocks.any() && op.trans_b;
  T* const c = call.out<T>(0);
  product.c = parted ? joined_scratch<T>(op.m * op.n) : c;
  product.add = op.bias;
  if (op.bias)
    each_row(call, op.m, op.n, [&](std::int64_t r) { std::copy_n(call.in<T>(2), op.n, product.c + r * op.n); });
  book_and_share(product, call);
  if (parted)
    each_block_row(call, op.blocks, op.m, op.n,
                   [=, whole = product.c](auto from, auto n, auto to) { std::copy_n(whole + from, n, c + to); });
  activate<T>(op, call);
}

template <class T>
void compute(const MatMul& op, Call& call) {
  require(!op.accumulate || op.activation == ProductActivation::none, "a product that accumulates has no activation");
  require(!op.blocks.any() || op.activation == ProductActivation::none, "a product in blocks of columns has no activation");
  require(!op.sums || op.trans_a, "a product that gives sums has them of a matrix that is stored transposed");
  with_factors<T>(call, [&]<class F>(F) { matmul<T, F>(op, call); });
}

template <class T>
void compute(const AttentionScores& op, Call& call) {
  const T *q = call.in<T>(0), *kv = call.in<T>(1);
  T* scores = call.out<T>(0);
  const HeadProducts<T> products(op.dims, op.dims.head_dim, call);
  for_each_head(op.dims, call, [&](const Head& h) {
    products.write_scores(h.scores(scores), op.scaled ? score_scale<T>(op.dims) : T{1}, h.query(q), h.key(kv));
  });
}

template <class T>
void compute(const AttentionContext& op, Call& call) {
  const T *probs = call.in<T>(0), *kv = call.in<T>(1);
  T* context = call.out<T>(0);
  const HeadProducts<T> products(op.dims, op.dims.value_width(), call);
  for_each_head(op.dims, call, [&](const Head& h) {
    products.write_by_query(h.context(context), T{1}, h.scores(probs), h.value(kv));
  });
}

template <class T>
void compute(const AttentionContextBackward& op, Call& call) {
  const T *dcontext = call.in<T>(0), *probs = call.in<T>(1), *kv = call.in<T>(2);
  T *dprobs = call.out<T>(0), *dkv = call.out<T>(1);
  const HeadProducts<T> products(op.dims, op.dims.value_width(), call);
  for_each_head(op.dims, call, [&](const Head& h) {
    products.write_scores(h.scores(dprobs), T{1}, h.context(dcontext), h.value(kv));
    products.write_by_key(h.value(dkv), T{1}, h.scores(probs), h.context(dcontext), h.shares_keys_with_earlier());
  });
}

template <class T>
void compute(const AttentionScoresBackward& op, Call& call) {
  const T *dscores = call.in<T>(0), *q = call.in<T>(1), *kv = call.in<T>(2);
  T *dq = call.out<T>(0), *dkv = call.out<T>(1);
  const T scale = op.scaled ? score_scale<T>(op.dims) : T{1};
  const HeadProducts<T> products(op.dims, op.dims.head_dim, call);
  for_each_head(op.dims, call, [&](const Head& h) {
    products.write_by_query(h.query(dq), scale, h.scores(dscores), h.key(kv));
    products.write_by_key(h.key(dkv), scale, h.scores(dscores), h.query(q), h.shares_keys_with_earlier());
  });
}

// c = a b for every group, with b of its expert.
template <class T, class F>
void grouped_matmul(const GroupedMatMul& op, Call& call) {
  const F *a = call.in<F>(0), *b = call.in<F>(1);
  T* c = call.out<T>(0);
  const std::int32_t* const counts = op.ragged ? call.in<std::int32_t>(2) : nullptr;
  share_groups(op, counts, call, [&](std::int64_t row, std::int64_t rows, std::int64_t expert) {
    const Factor<F> weight{b + expert * op.k * op.n, op.trans_b ? op.k : op.n, op.trans_b};
    book_and_share(Product<T, F>{rows, op.n, op.k, {a + row * op.k, op.k}, weight, c + row * op.n, op.n}, call);
  });
}

template <class T>
void compute(const GroupedMatMul& op, Call& call) {
  with_factors<T>(call, [&]<class F>(F) { grouped_matmul<T, F>(op, call); });
}

template <class T, class F>
void grouped_weight_grad(const GroupedWeightGrad& op, Call& call) {
  const F *dy = call.in<F>(0), *x = call.in<F>(1);
  const std::int64_t elements = op.experts * op.n * op.k;
  T* dw = op.accumulate ? product_scratch<T>(elements) : call.out<T>(0);
  fill(call, dw, elements, T{0});
  const std::int32_t* const counts = op.ragged ? call.in<std::int32_t>(2) : nullptr;
  share_groups(op, counts, call, [&](std::int64_t row, std::int64_t rows, std::int64_t expert) {
    T* to = dw + expert * op.n * op.k;
    const Factor<F> left{dy + row * op.n, op.n, true}, right{x + row * op.k, op.k};
    book_and_share(Product<T, F>{op.n, op.k, rows, left, right, to, op.k, T{1}, true}, call);
  });
  if (op.accumulate) add_product(dw, elements, op.total, call);
}

template <class T>
void compute(const GroupedWeightGrad& op, Call& call) {
  with_factors<T>(call, [&]<class F>(F) { grouped_weight_grad<T, F>(op, call); });
}

TANDEM_KERNEL(MatMul);
TANDEM_KERNEL(AttentionScores);
TANDEM_KERNEL(AttentionContext);
TANDEM_KERNEL(AttentionContextBackward);
TANDEM_KERNEL(AttentionScoresBackward);
TANDEM_KERNEL(GroupedMatMul);
TANDEM_KERNEL(GroupedWeightGrad);

}  // namespace tandem::exec::cpu
