// The only file that uses Eigen. Single-threaded, because ranks are threads and each has its share of the cores.
#define EIGEN_DONT_PARALLELIZE
#include "exec/cpu/gemm/eigen.hpp"

#include <Eigen/Core>

namespace tandem::exec::cpu {
namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using View = Eigen::Map<const Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;
template <class T>
using MutableView = Eigen::Map<Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;

template <class T, class A, class B>
void assign(const Product<T>& p, const A& a, const B& b) {
  MutableView<T> c(p.c, p.m, p.n, Eigen::OuterStride<>(p.c_stride));
  if (p.add && p.scale != T{1}) c.noalias() += p.scale * (a * b);
  else if (p.add) c.noalias() += a * b;
  else if (p.scale != T{1}) c.noalias() = p.scale * (a * b);
  else c.noalias() = a * b;
}

template <class T, class A>
void with_right(const Product<T>& p, const A& a) {
  if (p.b.transposed) return assign(p, a, View<T>(p.b.data, p.n, p.k, Eigen::OuterStride<>(p.b.stride)).transpose());
  assign(p, a, View<T>(p.b.data, p.k, p.n, Eigen::OuterStride<>(p.b.stride)));
}

template <class T>
void with_both(const Product<T>& p) {
  if (p.a.transposed) return with_right(p, View<T>(p.a.data, p.k, p.m, Eigen::OuterStride<>(p.a.stride)).transpose());
  with_right(p, View<T>(p.a.data, p.m, p.k, Eigen::OuterStride<>(p.a.stride)));
}

}  // namespace

void multiply_by_eigen(const Product<double>& product) { with_both(product); }
void multiply_by_eigen(const Product<float>& product) { with_both(product); }

void multiply(const Product<double>& product) { multiply_by_eigen(product); }

}  // namespace tandem::exec::cpu
