// Biases of experts, one for each expert's rows.
#include <algorithm>

#include "exec/cpu/kernels.hpp"

namespace tandem::exec::cpu {
namespace {

/// Calls body(expert, row) for every row of [groups, m], ascending.
template <class Op, class F>
void each_row(const Op& op, const std::int32_t* counts, F body) {
  if (!op.ragged) {
    for (std::int64_t r = 0; r < op.groups * op.m; ++r) body(r / op.m % op.experts, r);
    return;
  }
  for (std::int64_t e = 0, row = 0; e < op.experts; ++e)
    for (std::int32_t i = 0; i < counts[e]; ++i) body(e, row++);
}

}  // namespace

template <class T>
void compute(const GroupedBias& op, Call& call) {
  if (op.once && call.context().tensor_rank != 0) return;
  const T* bias = call.in<T>(1);
  T* x = call.out<T>(0);
  each_row(op, op.ragged ? call.in<std::int32_t>(2) : nullptr, [=, n = op.n](std::int64_t e, std::int64_t row) {
    for (std::int64_t c = 0; c < n; ++c) x[row * n + c] += bias[e * n + c];
  });
}

template <class T>
void compute(const GroupedBiasGrad& op, Call& call) {
  const T* dy = call.in<T>(0);
  T* sum = call.out<T>(0);
  std::fill_n(sum, op.experts * op.n, T{0});
  each_row(op, op.ragged ? call.in<std::int32_t>(1) : nullptr, [=, n = op.n](std::int64_t e, std::int64_t row) {
    for (std::int64_t c = 0; c < n; ++c) sum[e * n + c] += dy[row * n + c];
  });
}

TANDEM_KERNEL(GroupedBias);
TANDEM_KERNEL(GroupedBiasGrad);

}  // namespace tandem::exec::cpu
