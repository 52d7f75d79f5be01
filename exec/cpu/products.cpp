// Matrix products, the only place of Eigen. One thread: ranks are threads, and each owns its core's share.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include "exec/cpu/attention.hpp"
#include "exec/cpu/column_sums.hpp"
#include "exec/cpu/experts.hpp"
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/lanes.hpp"

namespace tandem::exec::cpu {
namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using View = Eigen::Map<const Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;
template <class T>
using MutableView = Eigen::Map<Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;

template <class T>
View<T> view(const T* data, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  return {data, rows, cols, Eigen::OuterStride<>(stride)};
}
template <class T>
MutableView<T> view(T* data, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  return {data, rows, cols, Eigen::OuterStride<>(stride)};
}

// c = a b, or c += a b, booked from the matrices themselves.
template <class C, class A, class B>
void multiply(C&& c, const A& a, const B& b, Call& call) {
  call.count_product(c.rows(), c.cols(), a.cols());
  c.noalias() = a * b;
}
template <class C, class A, class B>
void multiply_add(C&& c, const A& a, const B& b, Call& call) {
  call.count_product(c.rows(), c.cols(), a.cols());
  c.noalias() += a * b;
}
template <class C, class A, class B>
void multiply_scaled(C&& c, typename C::Scalar scale, const A& a, const B& b, Call& call) {
  call.count_product(c.rows(), c.cols(), a.cols());
  c.noalias() = scale * (a * b);
}

template <class C, class A, class B>
void multiply_add_scaled(C&& c, typename C::Scalar scale, const A& a, const B& b, Call& call) {
  call.count_product(c.rows(), c.cols(), a.cols());
  c.noalias() += scale * (a * b);
}

// A finished product joins what was there. It is formed apart, as a product that writes is: what is added has the same bits, and so
// has the sum of n micro-batches that follow each other or lie on n ranks. A thread keeps its largest product's room, like the
// packed panels of Eigen's products outside of any plan's memory.
template <class T>
T* product_room(std::int64_t elements) {
  thread_local Eigen::Array<T, Eigen::Dynamic, 1> room;
  if (room.size() < elements) room.resize(elements);
  return room.data();
}

template <class T, class Total>
void add_product(const T* product, std::int64_t elements, Total* total) {
  each(elements, [=](std::int64_t i) { total[i] += static_cast<Total>(product[i]); });
}

template <class T>
void add_product(const T* product, std::int64_t elements, DType total, Call& call) {
  if (total == DType::fp64)
    add_product(product, elements, call.out<double>(0));
  else
    add_product(product, elements, call.out<float>(0));
}

template <class T, class A, class B>
void matmul_added(const MatMul& op, const A& a, const B& b, Call& call) {
  require(!op.bias, "a product that accumulates has no bias");
  T* product = product_room<T>(op.m * op.n);
  multiply(view(product, op.m, op.n, op.n), a, b, call);
  add_product(product, op.m * op.n, op.total, call);
}

template <class T, class A, class B>
void matmul(const MatMul& op, const A& a, const B& b, Call& call) {
  if (op.accumulate) return matmul_added<T>(op, a, b, call);
  MutableView<T> c = view(call.out<T>(0), op.m, op.n, op.n);
  if (!op.bias) return multiply(c, a, b, call);
  c.rowwise() = Eigen::Map<const Eigen::RowVector<T, Eigen::Dynamic>>(call.in<T>(2), op.n);
  multiply_add(c, a, b, call);
}

template <class T, class A>
void matmul(const MatMul& op, const A& a, Call& call) {
  const T* b = call.in<T>(1);
  if (op.trans_b) return matmul<T>(op, a, view(b, op.n, op.k, op.k).transpose(), call);
  matmul<T>(op, a, view(b, op.k, op.n, op.n), call);
}

// A head's part of an operand as a matrix [count, head_dim]: the operand itself where its rows follow each other, else a copy.
template <class T>
class HeadMatrix {
 public:
  HeadMatrix(T* data, const HeadRows& rows, std::int64_t head_dim) : data_(data), rows_(rows), head_dim_(head_dim) {
    if (rows.order.straight()) return;
    copy_.resize(rows.count, head_dim);
    for (std::int64_t i = 0; i < rows.count; ++i) copy_.row(i) = operand_row(i);
  }
  auto matrix() {
    if (rows_.order.straight()) return view(data_ + rows_.at(0), rows_.count, head_dim_, rows_.stride);
    return view(static_cast<T*>(copy_.data()), rows_.count, head_dim_, head_dim_);
  }
  /// Writes a copy back.
  void put() {
    if (rows_.order.straight()) return;
    for (std::int64_t i = 0; i < rows_.count; ++i) operand_row(i) = copy_.row(i);
  }

 private:
  using Plain = std::remove_const_t<T>;
  auto operand_row(std::int64_t i) { return view(data_ + rows_.at(i), 1, head_dim_, head_dim_).row(0); }

  T* data_;
  HeadRows rows_;
  std::int64_t head_dim_;
  Matrix<Plain> copy_;
};

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
    return {kv, places.value(sequence, group()), dims.head_dim};
  }
  // The context or its gradient.
  template <class T>
  HeadMatrix<T> context(T* data) const {
    return {data, places.context(sequence, head), dims.head_dim};
  }
  // Whether an earlier head has begun the gradient of this head's keys and values.
  bool shares_keys_with_earlier() const { return head % places.queries_of_group() != 0; }
  // Scores, probabilities or their gradients: [seq, keys].
  template <class T>
  auto scores(T* data) const {
    const std::int64_t keys = dims.key_count();
    return view(data + (sequence * dims.heads + head) * dims.seq * keys, dims.seq, keys, keys);
  }
};

template <class F>
void for_each_head(const AttentionDims& dims, const KernelContext& context, F body) {
  const AttentionPlaces places(dims, context);
  for (std::int64_t s = 0; s < dims.batch; ++s) {
    for (std::int64_t h = 0; h < dims.heads; ++h) body(Head{dims, places, s, h});
  }
}

}  // namespace

template <class T>
void compute(const MatMul& op, Call& call) {
  const T* a = call.in<T>(0);
  require(!op.sums || op.trans_a, "a product that gives sums has them of a matrix that is stored transposed");
  if (op.sums) write_column_sums(a, op.k, op.m, call.out<T>(1));
  if (op.trans_a) return matmul<T>(op, view(a, op.k, op.m, op.m).transpose(), call);
  matmul<T>(op, view(a, op.m, op.k, op.k), call);
}

template <class T>
void compute(const AttentionScores& op, Call& call) {
  const T *q = call.in<T>(0), *kv = call.in<T>(1);
  T* scores = call.out<T>(0);
  for_each_head(op.dims, call.context(), [&](const Head& h) {
    multiply_scaled(h.scores(scores), op.scaled ? score_scale<T>(op.dims) : T{1}, h.query(q).matrix(),
                    h.key(kv).matrix().transpose(), call);
  });
}

template <class T>
void compute(const AttentionContext& op, Call& call) {
  const T *probs = call.in<T>(0), *kv = call.in<T>(1);
  T* context = call.out<T>(0);
  for_each_head(op.dims, call.context(), [&](const Head& h) {
    auto to = h.context(context);
    multiply(to.matrix(), h.scores(probs), h.value(kv).matrix(), call);
    to.put();
  });
}

template <class T>
void compute(const AttentionContextBackward& op, Call& call) {
  const T *dcontext = call.in<T>(0), *probs = call.in<T>(1), *kv = call.in<T>(2);
  T *dprobs = call.out<T>(0), *dkv = call.out<T>(1);
  for_each_head(op.dims, call.context(), [&](const Head& h) {
    auto from = h.context(dcontext);
    auto dvalue = h.value(dkv);
    multiply(h.scores(dprobs), from.matrix(), h.value(kv).matrix().transpose(), call);
    if (h.shares_keys_with_earlier())
      multiply_add(dvalue.matrix(), h.scores(probs).transpose(), from.matrix(), call);
    else
      multiply(dvalue.matrix(), h.scores(probs).transpose(), from.matrix(), call);
    dvalue.put();
  });
}

template <class T>
void compute(const AttentionScoresBackward& op, Call& call) {
  const T *dscores = call.in<T>(0), *q = call.in<T>(1), *kv = call.in<T>(2);
  T *dq = call.out<T>(0), *dkv = call.out<T>(1);
  const T scale = op.scaled ? score_scale<T>(op.dims) : T{1};
  for_each_head(op.dims, call.context(), [&](const Head& h) {
    auto query = h.query(q);
    auto dquery = h.query(dq);
    auto dkey = h.key(dkv);
    multiply_scaled(dquery.matrix(), scale, h.scores(dscores), h.key(kv).matrix(), call);
    if (h.shares_keys_with_earlier())
      multiply_add_scaled(dkey.matrix(), scale, h.scores(dscores).transpose(), query.matrix(), call);
    else
      multiply_scaled(dkey.matrix(), scale, h.scores(dscores).transpose(), query.matrix(), call);
    dquery.put();
    dkey.put();
  });
}

// c = a b for every group, b of its expert.
template <class T>
void compute(const GroupedMatMul& op, Call& call) {
  const T *a = call.in<T>(0), *b = call.in<T>(1);
  T* c = call.out<T>(0);
  for_each_group(op, op.ragged ? call.in<std::int32_t>(2) : nullptr, [&](std::int64_t row, std::int64_t rows, std::int64_t expert) {
    const T* weight = b + expert * op.k * op.n;
    const auto from = view(a + row * op.k, rows, op.k, op.k);
    if (op.trans_b)
      multiply(view(c + row * op.n, rows, op.n, op.n), from, view(weight, op.n, op.k, op.k).transpose(), call);
    else
      multiply(view(c + row * op.n, rows, op.n, op.n), from, view(weight, op.k, op.n, op.n), call);
  });
}

template <class T>
void compute(const GroupedWeightGrad& op, Call& call) {
  const T *dy = call.in<T>(0), *x = call.in<T>(1);
  const std::int64_t elements = op.experts * op.n * op.k;
  T* dw = op.accumulate ? product_room<T>(elements) : call.out<T>(0);
  std::fill_n(dw, elements, T{0});
  for_each_group(op, op.ragged ? call.in<std::int32_t>(2) : nullptr, [&](std::int64_t row, std::int64_t rows, std::int64_t expert) {
    multiply_add(view(dw + expert * op.n * op.k, op.n, op.k, op.k), view(dy + row * op.n, rows, op.n, op.n).transpose(),
                 view(x + row * op.k, rows, op.k, op.k), call);
  });
  if (op.accumulate) add_product(dw, elements, op.total, call);
}

TANDEM_KERNEL(MatMul);
TANDEM_KERNEL(AttentionScores);
TANDEM_KERNEL(AttentionContext);
TANDEM_KERNEL(AttentionContextBackward);
TANDEM_KERNEL(AttentionScoresBackward);
TANDEM_KERNEL(GroupedMatMul);
TANDEM_KERNEL(GroupedWeightGrad);

}  // namespace tandem::exec::cpu
