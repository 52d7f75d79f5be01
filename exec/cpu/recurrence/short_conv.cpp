// Causal convolutions of single columns over few positions, with SiLU. Threads share the columns.
#include <vector>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/scratch.hpp"
#include "exec/cpu/split.hpp"
#include "exec/shared/activations.hpp"

namespace tandem::exec::cpu {
namespace {

// Columns [first, first + count) of the operands of one sequence.
template <class T>
struct Columns {
  std::int64_t seq, mixed, taps, first, count;
  const T *weight, *bias;

  // The weights of tap j, of consecutive columns.
  std::vector<T> tap(std::int64_t j) const {
    std::vector<T> w(static_cast<std::size_t>(count));
    for (std::int64_t c = 0; c < count; ++c) w[static_cast<std::size_t>(c)] = weight[(first + c) * taps + j];
    return w;
  }
  std::vector<std::vector<T>> all_taps() const {
    std::vector<std::vector<T>> all;
    for (std::int64_t j = 0; j < taps; ++j) all.push_back(tap(j));
    return all;
  }
  // The first tap that meets a position of the sequence from position t.
  std::int64_t first_tap(std::int64_t t) const { return std::max<std::int64_t>(0, taps - 1 - t); }
  const T* row(const T* x, std::int64_t t) const { return x + t * mixed + first; }
  T* row(T* x, std::int64_t t) const { return x + t * mixed + first; }

  // z = bias + sum over taps of weight x, for position t.
  void convolve(const std::vector<std::vector<T>>& w, const T* x, std::int64_t t, T* z) const {
    if (bias == nullptr) std::fill_n(z, count, T{0});
    else std::copy_n(bias + first, count, z);
    for (std::int64_t j = first_tap(t); j < taps; ++j)
      each(count, [=, v = w[static_cast<std::size_t>(j)].data(), in = row(x, t - taps + 1 + j)](std::int64_t c) {
        z[c] += v[c] * in[c];
      });
  }
};

template <class Op, class T>
Columns<T> columns_of(const Op& op, const T* weight, const T* bias, std::int64_t first, std::int64_t end) {
  return {op.dims.seq, op.dims.mixed(), op.taps, first, end - first, weight, bias};
}

// Gradients of a range of columns. Sums over positions keep their order.
template <class T>
class Gradients {
 public:
  Gradients(const Columns<T>& columns, T* dx, T* dbias)
      : columns_(columns), dx_(dx), dbias_(dbias), taps_(columns.all_taps()), dz_(columns.seq * columns.count),
        dw_(static_cast<std::size_t>(columns.taps), std::vector<T>(static_cast<std::size_t>(columns.count), T{0})) {
    if (dbias_ != nullptr) std::fill_n(dbias_ + columns_.first, columns_.count, T{0});
  }
  void add(const T* dy, const T* x, std::int64_t row) {
    for (std::int64_t t = 0; t < columns_.seq; ++t) position(dy, x, t);
    for (std::int64_t t = 0; t < columns_.seq; ++t) input(dx_ + row * columns_.mixed, t);
  }
  void put(T* dweight) const {
    for (std::int64_t c = 0; c < columns_.count; ++c)
      for (std::int64_t j = 0; j < columns_.taps; ++j)
        dweight[(columns_.first + c) * columns_.taps + j] = dw_[static_cast<std::size_t>(j)][static_cast<std::size_t>(c)];
  }

 private:
  T* dz(std::int64_t t) const { return dz_.data() + t * columns_.count; }

  // dz = dy silu'(z), and what it adds to the gradients of weights and bias.
  void position(const T* dy, const T* x, std::int64_t t) {
    T* const d = dz(t);
    columns_.convolve(taps_, x, t, d);
    each(columns_.count, [=, up = columns_.row(dy, t)](std::int64_t c) { d[c] = up[c] * Silu::derivative(d[c]); });
    for (std::int64_t j = columns_.first_tap(t); j < columns_.taps; ++j)
      each(columns_.count, [=, sum = dw_[static_cast<std::size_t>(j)].data(), in = columns_.row(x, t - columns_.taps + 1 + j)](
                               std::int64_t c) { sum[c] += d[c] * in[c]; });
    if (dbias_ != nullptr) each(columns_.count, [=, sum = dbias_ + columns_.first](std::int64_t c) { sum[c] += d[c]; });
  }
  // dx[t] = sum over taps of weight[j] dz[t + taps - 1 - j].
  void input(T* dx, std::int64_t t) const {
    T* const to = columns_.row(dx, t);
    std::fill_n(to, columns_.count, T{0});
    for (std::int64_t j = columns_.taps - 1; j >= 0 && t + columns_.taps - 1 - j < columns_.seq; --j)
      each(columns_.count, [=, w = taps_[static_cast<std::size_t>(j)].data(), d = dz(t + columns_.taps - 1 - j)](std::int64_t c) {
        to[c] += w[c] * d[c];
      });
  }

  const Columns<T>& columns_;
  T *dx_, *dbias_;
  std::vector<std::vector<T>> taps_;
  ScratchArray<T> dz_;
  std::vector<std::vector<T>> dw_;
};

}  // namespace

template <class T>
void compute(const ShortConv& op, Call& call) {
  const T *x = call.in<T>(0), *weight = call.in<T>(1), *bias = op.bias ? call.in<T>(2) : nullptr;
  T* y = call.out<T>(0);
  each_columns(call, op.dims.rows() * op.taps, op.dims.mixed(), [&](std::int64_t first, std::int64_t end) {
    const Columns<T> columns = columns_of(op, weight, bias, first, end);
    const auto taps = columns.all_taps();
    for (std::int64_t row = 0; row < op.dims.rows(); ++row) {
      const std::int64_t t = row % op.dims.seq;
      T* const z = columns.row(y, row);
      columns.convolve(taps, x + (row - t) * op.dims.mixed(), t, z);
      each(end - first, [=](std::int64_t c) { z[c] = Silu::value(z[c]); });
    }
  });
}

template <class T>
void compute(const ShortConvBackward& op, Call& call) {
  const T *dy = call.in<T>(0), *x = call.in<T>(1), *weight = call.in<T>(2), *bias = op.bias ? call.in<T>(3) : nullptr;
  T *dx = call.out<T>(0), *dweight = call.out<T>(1), *dbias = op.bias ? call.out<T>(2) : nullptr;
  each_columns(call, op.dims.rows() * op.taps, op.dims.mixed(), [&](std::int64_t first, std::int64_t end) {
    const Columns<T> columns = columns_of(op, weight, bias, first, end);
    Gradients<T> gradients(columns, dx, dbias);
    for (std::int64_t row = 0; row < op.dims.rows(); row += op.dims.seq)
      gradients.add(dy + row * op.dims.mixed(), x + row * op.dims.mixed(), row);
    gradients.put(dweight);
  });
}

TANDEM_KERNEL(ShortConv);
TANDEM_KERNEL(ShortConvBackward);

}  // namespace tandem::exec::cpu
