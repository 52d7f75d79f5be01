// Bias, dropout and residual connection of a block's two halves.
#include <array>

#include "exec/cpu/column_sums.hpp"
#include "exec/cpu/dropout.hpp"
#include "exec/cpu/kernels.hpp"
#include "models/ops/column_blocks.hpp"

namespace tandem::exec::cpu {
namespace {

// Calls body(first row, count, mask index) for runs of rows with consecutive masks; one run if there is no dropout. A mask is drawn for
// whole rows, of which a rank may have its share of columns.
template <class Op, class F>
void each_masked_run(const Op& op, const KernelContext& context, F body) {
  if (op.dropout == 0) return body(0, op.rows, std::uint64_t{0});
  require(context.seq_length > 0, "dropout of hidden states needs the sequence length");
  const std::int64_t shares = cuts_columns(op.site) ? context.tensor_size : 1;
  const HiddenRows rows(context, context.seq_length / context.context_size, op.rows, op.shard);
  rows.each_run([&](std::int64_t row, std::int64_t count, std::int64_t sequence, std::int64_t position) {
    const std::int64_t token = rows.token(sequence, position);
    if (shares == 1) return body(row, count, static_cast<std::uint64_t>(token * op.cols));
    for (std::int64_t i = 0; i < count; ++i)
      body(row + i, std::int64_t{1}, static_cast<std::uint64_t>(((token + i) * shares + context.tensor_rank) * op.cols));
  });
}

}  // namespace

template <class T>
void compute(const BiasGrad& op, Call& call) {
  std::int64_t col = 0;
  for (const std::int64_t width : widths_of(op.blocks, op.cols)) {
    if (width > 0) write_column_sums(call, call.in<T>(0) + op.rows * col, op.rows, width, call.out<T>(0) + col);
    col += width;
  }
}

template <class T>
void compute(const BiasDropoutAdd& op, Call& call) {
  const T *x = call.in<T>(0), *bias = op.bias ? call.in<T>(1) : nullptr,
          *residual = op.residual ? call.in<T>(op.bias ? 2 : 1) : nullptr;
  T* y = call.out<T>(0);
  const Dropout<T> dropout(call.context(), op.site, op.dropout);
  each_masked_run(op, call.context(), [&](std::int64_t row, std::int64_t count, std::uint64_t mask) {
    each_row(call, count, op.cols, [&](std::int64_t i) {
      const std::int64_t r = row + i;
      const std::uint64_t first = mask + static_cast<std::uint64_t>(i * op.cols);
      const T *xr = x + r * op.cols, *rest = op.residual ? residual + r * op.cols : nullptr;
      T* out = y + r * op.cols;
      if (op.bias && op.residual)
        dropout.each(first, op.cols, [=](std::int64_t c, T factor) { out[c] = factor * (xr[c] + bias[c]) + rest[c]; });
      else if (op.bias)
        dropout.each(first, op.cols, [=](std::int64_t c, T factor) { out[c] = factor * (xr[c] + bias[c]); });
      else if (op.residual)
        dropout.each(first, op.cols, [=](std::int64_t c, T factor) { out[c] = factor * xr[c] + rest[c]; });
      else
        dropout.each(first, op.cols, [=](std::int64_t c, T factor) { out[c] = factor * xr[c]; });
    });
  });
}

template <class T>
void compute(const BiasDropoutAddBackward& op, Call& call) {
  const T* dy = call.in<T>(0);
  T* dx = call.out<T>(0);
  const Dropout<T> dropout(call.context(), op.site, op.dropout);
  each_masked_run(op, call.context(), [&](std::int64_t row, std::int64_t count, std::uint64_t first) {
    call.team().split(count * op.cols, call.team().element_grain(), [&](std::int64_t begin, std::int64_t end) {
      const T* from = dy + row * op.cols + begin;
      T* to = dx + row * op.cols + begin;
      dropout.each(first + static_cast<std::uint64_t>(begin), end - begin,
                   [=](std::int64_t i, T factor) { to[i] = factor * from[i]; });
    });
  });
  if (!op.bias) return;
  call.settle(0);
  write_column_sums<T>(call, dx, op.rows, op.cols, call.out<T>(1));
}

// The sum, then its norm. The norm's operands follow the sum's.
template <class T>
void compute(const BiasDropoutAddNorm& op, Call& call) {
  compute<T>(op.add(), call);
  call.settle(0);  // the norm reads the sum as stored, like a separate kernel
  const std::size_t gamma = op.bias ? 3 : 2;
  const std::array in{call.output(0), call.input(gamma), op.norm().has_beta() ? call.input(gamma + 1) : Tensor{}};
  const std::array out{call.output(1), call.output(2)};
  const Op whole = op.norm();
  Call norm({whole, call.compute_type(), in, out, call.context()}, {}, call.parts());
  compute<T>(op.norm(), norm);
}

TANDEM_KERNEL(BiasGrad);
TANDEM_KERNEL(BiasDropoutAdd);
TANDEM_KERNEL(BiasDropoutAddBackward);
TANDEM_KERNEL(BiasDropoutAddNorm);

}  // namespace tandem::exec::cpu
