// Bias, dropout and residual around a block's two halves.
#include "exec/cpu/dropout.hpp"
#include "exec/cpu/kernels.hpp"

namespace tandem::exec::cpu {
namespace {

// Rows in ascending order.
template <class T>
void write_column_sums(const T* x, std::int64_t rows, std::int64_t cols, T* sum) {
  std::fill_n(sum, cols, T{0});
  for (std::int64_t r = 0; r < rows; ++r, x += cols) each(cols, [=](std::int64_t c) { sum[c] += x[c]; });
}

// Where row 0's mask begins.
std::uint64_t first_index(const KernelContext& context, std::int64_t cols, double dropout) {
  require(dropout == 0 || context.seq_length > 0, "dropout of hidden states needs the sequence length");
  return static_cast<std::uint64_t>(first_token(context, context.seq_length) * cols);
}

}  // namespace

template <class T>
void compute(const BiasGrad& op, Call& call) {
  write_column_sums(call.in<T>(0), op.rows, op.cols, call.out<T>(0));
}

template <class T>
void compute(const BiasDropoutAdd& op, Call& call) {
  const T *x = call.in<T>(0), *bias = op.bias ? call.in<T>(1) : nullptr, *residual = call.in<T>(op.bias ? 2 : 1);
  T* y = call.out<T>(0);
  const Dropout<T> dropout(call.context(), op.site, op.dropout);
  std::uint64_t first = first_index(call.context(), op.cols, op.dropout);
  for (std::int64_t r = 0; r < op.rows; ++r, x += op.cols, residual += op.cols, y += op.cols) {
    if (op.bias) {
      dropout.each(first, op.cols, [=](std::int64_t c, T factor) { y[c] = factor * (x[c] + bias[c]) + residual[c]; });
    } else {
      dropout.each(first, op.cols, [=](std::int64_t c, T factor) { y[c] = factor * x[c] + residual[c]; });
    }
    first += static_cast<std::uint64_t>(op.cols);
  }
}

template <class T>
void compute(const BiasDropoutAddBackward& op, Call& call) {
  const T* dy = call.in<T>(0);
  T* dx = call.out<T>(0);
  const Dropout<T> dropout(call.context(), op.site, op.dropout);
  dropout.each(first_index(call.context(), op.cols, op.dropout), op.rows * op.cols,
               [=](std::int64_t i, T factor) { dx[i] = factor * dy[i]; });
  if (op.bias) write_column_sums<T>(dx, op.rows, op.cols, call.out<T>(1));
}

TANDEM_KERNEL(BiasGrad);
TANDEM_KERNEL(BiasDropoutAdd);
TANDEM_KERNEL(BiasDropoutAddBackward);

}  // namespace tandem::exec::cpu
