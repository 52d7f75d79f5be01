// Muon (arXiv 2502.16982, algorithm 1), one matrix after the other. 16-bit iterations compute in fp32 and round what they store.
#include <cmath>
#include <vector>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/scratch.hpp"
#include "exec/cpu/split.hpp"
#include "exec/cpu/staged.hpp"
#include "exec/cpu/team_product.hpp"
#include "exec/cpu/updated.hpp"
#include "exec/shared/newton_schulz.hpp"
#include "models/graph/owners.hpp"

namespace tandem::exec::cpu {
namespace {

// One matrix of a piece.
struct Matrix {
  const PieceRow& piece;
  std::int64_t index;  // among the stacked ones
  int part;

  // The piece's element that begins row `row`.
  std::int64_t row(std::int64_t row) const { return piece.matrices.row_of(index, part, row) * piece.matrices.cols; }
};

// A matrix under iteration: [shorter, longer], whatever its own orientation, and three more in the same scratch memory.
template <class T>
class Iteration {
 public:
  Iteration(const Muon& op, Call& call)
      : op_(op), call_(call), m_(op.shorter()), n_(op.longer()), rounds_(op.iteration != kTypeOf<T>),
        x_(rounds_ ? wide_scratch(op.room_elements()) : call.out<T>(2)), next_(x_ + m_ * n_), a_(next_ + m_ * n_),
        b_(a_ + m_ * m_) {}

  // Element (row, col) of the matrix in its own orientation.
  T& at(std::int64_t row, std::int64_t col) { return x_[op_.rows > op_.cols ? col * n_ + row : row * n_ + col]; }
  void start() {
    round(x_, m_ * n_);
    const T factor = static_cast<T>(1 / (norm() + kMuonEpsilon));
    each(call_, m_ * n_, [x = x_, factor](std::int64_t i) { x[i] *= factor; });
    round(x_, m_ * n_);
  }
  void step() {
    constexpr auto k = kNewtonSchulz;
    const T first = static_cast<T>(k.a), second = static_cast<T>(k.b), third = static_cast<T>(k.c);
    multiply({m_, m_, n_, {x_, n_}, {x_, n_, true}, a_, m_});
    round(a_, m_ * m_);
    multiply({m_, m_, m_, {a_, m_}, {a_, m_}, b_, m_});
    each(call_, m_ * m_, [=, a = a_, b = b_](std::int64_t i) { b[i] = second * a[i] + third * b[i]; });
    round(b_, m_ * m_);
    multiply({m_, n_, m_, {b_, m_}, {x_, n_}, next_, n_});
    each(call_, m_ * n_, [=, x = x_, next = next_](std::int64_t i) { next[i] = first * x[i] + next[i]; });
    round(next_, m_ * n_);
    std::swap(x_, next_);
  }

 private:
  static T* wide_scratch(std::int64_t elements) {
    thread_local GrowingScratch<T> scratch;
    return scratch.at_least(elements);
  }
  void multiply(const Product<T>& product) {
    call_.count_product(product.m, product.n, product.k);
    cpu::multiply(call_.team(), product);
  }
  void round(T* values, std::int64_t n) const {
    if constexpr (std::is_same_v<T, float>)
      if (rounds_) each(call_, n, [=](std::int64_t i) { values[i] = from_bf16(to_bf16(values[i])); });
  }
  // The rows' sums are added in order, so that no bit depends on the number of threads.
  double norm() const {
    std::vector<double> sums(static_cast<std::size_t>(m_));
    each_row(call_, m_, n_, [&](std::int64_t r) {
      double sum = 0;
      for (std::int64_t i = r * n_; i < (r + 1) * n_; ++i) sum += static_cast<double>(x_[i]) * static_cast<double>(x_[i]);
      sums[static_cast<std::size_t>(r)] = sum;
    });
    double all = 0;
    for (const double sum : sums) all += sum;
    return std::sqrt(all);
  }

  const Muon& op_;
  Call& call_;
  std::int64_t m_, n_;
  bool rounds_;
  T *x_, *next_, *a_, *b_;
};

// Updates the momentum and gives the iteration its matrix.
template <class T>
void take_momentum(const Muon& op, Call& call, const Matrix& of, Iteration<T>& x) {
  const T momentum = static_cast<T>(op.momentum), clip = static_cast<T>(call.table().clip_coefficient);
  call.team().split(op.rows, call.team().grain(op.cols), [&](std::int64_t begin, std::int64_t end) {
    Moment<T> buffers(call, op, 1, Rounding::Of::exp_avg);
    Staged<T> gradients;
    for (std::int64_t r = begin; r < end; ++r) {
      const T* g = gradients.get({call.input(0), of.piece.gradient + of.row(r), op.cols});
      T* buffer = buffers.get(of.piece, of.row(r), op.cols);
      for (std::int64_t i = 0; i < op.cols; ++i) {
        buffer[i] = momentum * buffer[i] + g[i] * clip;
        x.at(r, i) = op.nesterov ? g[i] * clip + momentum * buffer[i] : buffer[i];
      }
      buffers.put();
    }
  });
}

template <class T>
void apply(const Muon& op, Call& call, const Matrix& of, Iteration<T>& x) {
  const double rate = call.table().learning_rate;
  const T keep = static_cast<T>(1 - rate * (of.piece.decay ? op.weight_decay : 0)), step = static_cast<T>(rate * op.scale);
  call.team().split(op.rows, call.team().grain(op.cols), [&](std::int64_t begin, std::int64_t end) {
    Updated<T> weights(call, op, {0, op.master ? 3 : -1});
    for (std::int64_t r = begin; r < end; ++r) {
      T* w = weights.get(of.piece, of.row(r), op.cols);
      for (std::int64_t i = 0; i < op.cols; ++i) w[i] = keep * w[i] - step * x.at(r, i);
      weights.put();
    }
  });
}

}  // namespace

template <class T>
void compute(const Muon& op, Call& call) {
  if (call.table().found_nonfinite) return;
  for (const PieceRow& p : call.pieces())
    for (std::int64_t i = 0; i < stacked_in(p.matrices, p.count); ++i)
      for (int part = 0; part < kMostParts; ++part) {
        if (!is_of(op, p.matrices, part)) continue;
        const Matrix matrix{p, i, part};
        Iteration<T> x(op, call);
        take_momentum(op, call, matrix, x);
        x.start();
        for (std::int64_t s = 0; s < op.steps; ++s) x.step();
        apply(op, call, matrix, x);
      }
}

TANDEM_KERNEL(Muon);

}  // namespace tandem::exec::cpu
