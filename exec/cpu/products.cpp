// Matrix products, the only place of Eigen. One thread: ranks are threads, and each owns its core's share.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include <cmath>

#include "exec/cpu/kernels.hpp"

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

template <class T, class A, class B>
void matmul(const MatMul& op, const A& a, const B& b, Call& call) {
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

enum class Part : std::int64_t { query, key, value };

// The attention operands of one (sequence, head) as matrices without copies.
struct Head {
  const AttentionDims& dims;
  std::int64_t sequence, head;

  // A part of qkv or of its gradient: [seq, head_dim].
  template <class T>
  auto part(T* qkv, Part p) const {
    const std::int64_t stride = dims.qkv_width();
    const std::int64_t queries = dims.heads / dims.groups(), group = head / queries;
    const std::int64_t place = p == Part::query ? head % queries : queries + (p == Part::value ? 1 : 0);
    const std::int64_t column = (group * (queries + 2) + place) * dims.head_dim;
    return view(qkv + sequence * dims.seq * stride + column, dims.seq, dims.head_dim, stride);
  }
  // Whether an earlier head has begun the gradient of this head's keys and values.
  bool shares_keys_with_earlier() const { return head % (dims.heads / dims.groups()) != 0; }
  // Scores, probabilities or their gradients: [seq, seq].
  template <class T>
  auto square(T* data) const {
    return view(data + (sequence * dims.heads + head) * dims.seq * dims.seq, dims.seq, dims.seq, dims.seq);
  }
  // The context or its gradient: [seq, head_dim].
  template <class T>
  auto context(T* data) const {
    const std::int64_t stride = dims.heads * dims.head_dim;
    return view(data + sequence * dims.seq * stride + head * dims.head_dim, dims.seq, dims.head_dim, stride);
  }
};

template <class F>
void for_each_head(const AttentionDims& dims, F body) {
  for (std::int64_t s = 0; s < dims.batch; ++s) {
    for (std::int64_t h = 0; h < dims.heads; ++h) body(Head{dims, s, h});
  }
}

template <class T>
T score_scale(const AttentionDims& dims) {
  return static_cast<T>(1 / std::sqrt(static_cast<double>(dims.head_dim)));
}

}  // namespace

template <class T>
void compute(const MatMul& op, Call& call) {
  const T* a = call.in<T>(0);
  if (op.trans_a) return matmul<T>(op, view(a, op.k, op.m, op.m).transpose(), call);
  matmul<T>(op, view(a, op.m, op.k, op.k), call);
}

template <class T>
void compute(const AttentionScores& op, Call& call) {
  const T *q = call.in<T>(0), *kv = call.in<T>(1);
  T* scores = call.out<T>(0);
  for_each_head(op.dims, [&](const Head& h) {
    multiply_scaled(h.square(scores), score_scale<T>(op.dims), h.part(q, Part::query),
                    h.part(kv, Part::key).transpose(), call);
  });
}

template <class T>
void compute(const AttentionContext& op, Call& call) {
  const T *probs = call.in<T>(0), *qkv = call.in<T>(1);
  T* context = call.out<T>(0);
  for_each_head(op.dims,
                [&](const Head& h) { multiply(h.context(context), h.square(probs), h.part(qkv, Part::value), call); });
}

template <class T>
void compute(const AttentionContextBackward& op, Call& call) {
  const T *dcontext = call.in<T>(0), *probs = call.in<T>(1), *qkv = call.in<T>(2);
  T *dprobs = call.out<T>(0), *dqkv = call.out<T>(1);
  for_each_head(op.dims, [&](const Head& h) {
    multiply(h.square(dprobs), h.context(dcontext), h.part(qkv, Part::value).transpose(), call);
    if (h.shares_keys_with_earlier())
      multiply_add(h.part(dqkv, Part::value), h.square(probs).transpose(), h.context(dcontext), call);
    else
      multiply(h.part(dqkv, Part::value), h.square(probs).transpose(), h.context(dcontext), call);
  });
}

template <class T>
void compute(const AttentionScoresBackward& op, Call& call) {
  const T *dscores = call.in<T>(0), *q = call.in<T>(1), *kv = call.in<T>(2);
  T *dq = call.out<T>(0), *dkv = call.out<T>(1);
  const T scale = score_scale<T>(op.dims);
  for_each_head(op.dims, [&](const Head& h) {
    multiply_scaled(h.part(dq, Part::query), scale, h.square(dscores), h.part(kv, Part::key), call);
    if (h.shares_keys_with_earlier())
      multiply_add_scaled(h.part(dkv, Part::key), scale, h.square(dscores).transpose(), h.part(q, Part::query), call);
    else
      multiply_scaled(h.part(dkv, Part::key), scale, h.square(dscores).transpose(), h.part(q, Part::query), call);
  });
}

TANDEM_KERNEL(MatMul);
TANDEM_KERNEL(AttentionScores);
TANDEM_KERNEL(AttentionContext);
TANDEM_KERNEL(AttentionContextBackward);
TANDEM_KERNEL(AttentionScoresBackward);

}  // namespace tandem::exec::cpu
