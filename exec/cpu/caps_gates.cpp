// Soft caps of scores and logits, and sigmoid gates of rows, with gradients.
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/split.hpp"
#include "exec/shared/routing.hpp"
#include "exec/shared/soft_cap.hpp"

namespace tandem::exec::cpu {

template <class T>
void compute(const SoftCap& op, Call& call) {
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  const SoftCapOf<T> cap{static_cast<T>(op.cap)};
  each(call, op.elements, [=](std::int64_t i) { y[i] = cap.value(x[i]); });
}

template <class T>
void compute(const SoftCapBackward& op, Call& call) {
  const T *dy = call.in<T>(0), *y = call.in<T>(1);
  T* dx = call.out<T>(0);
  const SoftCapOf<T> cap{static_cast<T>(op.cap)};
  each(call, op.elements, [=](std::int64_t i) { dx[i] = dy[i] * cap.slope(y[i]); });
}

template <class T>
void compute(const RowGate& op, Call& call) {
  const T *x = call.in<T>(0), *gate = call.in<T>(1);
  T* y = call.out<T>(0);
  each_row(call, op.rows, op.cols, [=, &op](std::int64_t r) {
    each(op.cols, [share = sigmoid_score(gate[r]), from = x + r * op.cols, to = y + r * op.cols](std::int64_t c) {
      to[c] = share * from[c];
    });
  });
}

template <class T>
void compute(const RowGateBackward& op, Call& call) {
  const T *dy = call.in<T>(0), *x = call.in<T>(1), *gate = call.in<T>(2);
  T *dx = call.out<T>(0), *dgate = call.out<T>(1);
  each_row(call, op.rows, op.cols, [=, &op](std::int64_t r) {
    const T share = sigmoid_score(gate[r]);
    const T *up = dy + r * op.cols, *from = x + r * op.cols;
    dgate[r] = share * (T{1} - share) * lane_sum<T>(op.cols, [=](std::int64_t c) { return up[c] * from[c]; });
    each(op.cols, [=, to = dx + r * op.cols](std::int64_t c) { to[c] = share * up[c]; });
  });
}

TANDEM_KERNEL(SoftCap);
TANDEM_KERNEL(SoftCapBackward);
TANDEM_KERNEL(RowGate);
TANDEM_KERNEL(RowGateBackward);

}  // namespace tandem::exec::cpu
