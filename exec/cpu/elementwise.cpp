// Norms and sums as frameworks without fused kernels perform them: one memory pass per operation.
#include <cmath>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/split.hpp"

namespace tandem::exec::cpu {
namespace {

// Calls body(f), where f(column) is the second operand in row `r`.
template <class T, class F>
void with_other(const Elementwise& op, const T* b, std::int64_t r, F body) {
  switch (op.other) {
    case Spread::full: return body([=, row = b + r * op.cols](std::int64_t c) { return row[c]; });
    case Spread::row: return body([=, number = b[r]](std::int64_t) { return number; });
    case Spread::column: return body([=](std::int64_t c) { return b[c]; });
    case Spread::none: return body([](std::int64_t) { return T{1}; });
  }
}

template <class T, class B>
void write_row(const Elementwise& op, const T* a, B b, T* y) {
  const T factor = static_cast<T>(op.factor);
  switch (op.kind) {
    case ElementwiseKind::add: return each(op.cols, [=](std::int64_t c) { y[c] = factor * (a[c] + b(c)); });
    case ElementwiseKind::subtract: return each(op.cols, [=](std::int64_t c) { y[c] = factor * (a[c] - b(c)); });
    case ElementwiseKind::multiply: return each(op.cols, [=](std::int64_t c) { y[c] = factor * (a[c] * b(c)); });
    case ElementwiseKind::square: return each(op.cols, [=](std::int64_t c) { y[c] = factor * (a[c] * a[c]); });
  }
}

}  // namespace

template <class T>
void compute(const Elementwise& op, Call& call) {
  require(op.other != Spread::none || op.kind == ElementwiseKind::multiply || op.kind == ElementwiseKind::square,
          "a sum of one operand");
  const T *a = call.in<T>(0), *b = op.other == Spread::none ? nullptr : call.in<T>(1);
  T* y = call.out<T>(0);
  each_row(call, op.rows, op.cols, [&](std::int64_t r) {
    with_other(op, b, r, [&](auto other) { write_row(op, a + r * op.cols, other, y + r * op.cols); });
  });
}

template <class T>
void compute(const RowReduce& op, Call& call) {
  T* y = call.out<T>(0);
  each_row(call, op.rows, op.cols, [&](std::int64_t r) {
    const T* x = call.in<T>(0) + r * op.cols;
    const T sum = lane_sum<T>(op.cols, [=](std::int64_t c) { return x[c]; });
    y[r] = op.kind == RowReduceKind::sum ? sum
                                         : T{1} / std::sqrt(sum / static_cast<T>(op.cols) + static_cast<T>(op.epsilon));
  });
}

TANDEM_KERNEL(Elementwise);
TANDEM_KERNEL(RowReduce);

}  // namespace tandem::exec::cpu
