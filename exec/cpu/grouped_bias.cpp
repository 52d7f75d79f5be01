// Biases of experts: each expert's rows get its bias.
#include <algorithm>

#include "exec/cpu/experts.hpp"
#include "exec/cpu/kernels.hpp"

namespace tandem::exec::cpu {

template <class T>
void compute(const GroupedBias& op, Call& call) {
  if (op.once && call.context().expert_tensor_rank != 0) return;
  const T* biases = call.in<T>(1);
  T* x = call.out<T>(0);
  for_each_group(op, op.ragged ? call.in<std::int32_t>(2) : nullptr,
                 [&](std::int64_t first, std::int64_t rows, std::int64_t expert) {
                   each_row(call, rows, op.n, [=, bias = biases + expert * op.n](std::int64_t r) {
                     each(op.n, [=, to = x + (first + r) * op.n](std::int64_t c) { to[c] += bias[c]; });
                   });
                 });
}

template <class T>
void compute(const GroupedBiasGrad& op, Call& call) {
  const T* dy = call.in<T>(0);
  T* dbiases = call.out<T>(0);
  std::fill_n(dbiases, op.experts * op.n, T{0});
  for_each_group(op, op.ragged ? call.in<std::int32_t>(1) : nullptr,
                 [&](std::int64_t first, std::int64_t rows, std::int64_t expert) {
                   each_columns(call, rows, op.n, [=](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t r = first; r < first + rows; ++r)
                       each(end - begin, [=, from = dy + r * op.n + begin, sum = dbiases + expert * op.n + begin](std::int64_t c) {
                         sum[c] += from[c];
                       });
                   });
                 });
}

TANDEM_KERNEL(GroupedBias);
TANDEM_KERNEL(GroupedBiasGrad);

}  // namespace tandem::exec::cpu
