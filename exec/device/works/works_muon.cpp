// Works of Muon, one matrix after the other.
#include <utility>

#include "exec/device/works/operands.hpp"
#include "models/graph/owners.hpp"

namespace tandem::exec::device {
namespace {

/// The matrices in a launch's scratch operand, each row-major.
class Iteration {
 public:
  Iteration(const Muon& op, const Operands& at, Works& works)
      : works_(works), form_(at.compute() == DType::fp64 ? Form::doubles : Form::mixed), type_(op.iteration), m_(op.shorter()),
        n_(op.longer()), x_(at.out(2).address), next_(x_ + bytes(m_ * n_)), a_(next_ + bytes(m_ * n_)), b_(a_ + bytes(m_ * m_)),
        sums_(reinterpret_cast<double*>(at.around().scratch)) {}

  Typed x() const { return {x_, type_}; }
  void start() {
    const std::int64_t count = chunks(m_ * n_).blocks;
    works_.push_back(MuonSquaresKernel{form_, x(), m_ * n_, sums_});
    works_.push_back(MuonNormKernel{Form::doubles, sums_, count});
    works_.push_back(MuonScaleKernel{form_, x(), x(), m_ * n_, 1, sums_ + count});
  }
  /// A sum's first term is written before the product that adds the second one.
  void step() {
    multiply({x_, m_, n_}, {x_, m_, n_, true}, {a_, m_, m_}, 1, false);
    scale(a_, b_, m_ * m_, kNewtonSchulz.b);
    multiply({a_, m_, m_}, {a_, m_, m_}, {b_, m_, m_}, kNewtonSchulz.c, true);
    scale(x_, next_, m_ * n_, kNewtonSchulz.a);
    multiply({b_, m_, m_}, {x_, m_, n_}, {next_, m_, n_}, 1, true);
    std::swap(x_, next_);
  }

 private:
  struct Matrix {
    std::byte* data;
    std::int64_t rows, cols;
    bool transposed = false;
  };
  std::int64_t bytes(std::int64_t elements) const { return bytes_of(type_, elements).count(); }
  static Stored stored(const Matrix& m) { return {m.cols, m.rows, m.cols, m.rows * m.cols, m.transposed}; }
  void multiply(const Matrix& first, const Matrix& second, const Matrix& out, double alpha, bool accumulate) {
    GemmShape shape{stored(second), stored(first), stored(out), 1, type_, type_};
    shape.accumulate = accumulate;
    works_.push_back(Product{shape, second.data, first.data, out.data, nullptr, alpha});
  }
  void scale(std::byte* from, std::byte* to, std::int64_t elements, double factor) {
    works_.push_back(MuonScaleKernel{form_, {from, type_}, {to, type_}, elements, factor, nullptr});
  }

  Works& works_;
  Form form_;
  DType type_;
  std::int64_t m_, n_;
  std::byte *x_, *next_, *a_, *b_;
  double* sums_;
};

void add_matrix(const Muon& op, const Operands& at, const MuonMatrix& of, Works& works) {
  const Form form = at.compute() == DType::fp64 ? Form::doubles : Form::mixed;
  const RoundAtRandom random{at.context().seed, op.stochastic};
  Iteration iteration(op, at, works);
  works.push_back(
      MuonMomentumKernel{form, of, at.in(0), at.out(1), iteration.x(), op.momentum, op.nesterov, at.table(), random});
  iteration.start();
  for (std::int64_t s = 0; s < op.steps; ++s) iteration.step();
  const Typed master = at.out_if(op.master, 3);
  works.push_back(
      MuonApplyKernel{form, of, iteration.x(), at.out(0), master, op.scale, op.weight_decay, at.table(), random});
}

}  // namespace

/// The sums of chunks, and the factor.
std::int64_t muon_scratch(const Muon& op) {
  return (chunks(op.rows * op.cols).blocks + 1) * static_cast<std::int64_t>(sizeof(double));
}

Works works(const Muon& op, const Operands& at) {
  Works all;
  for (const PieceRow& p : at.around().pieces.on_host)
    for (std::int64_t i = 0; i < stacked_in(p.matrices, p.count); ++i)
      for (int part = 0; part < kMostParts; ++part) {
        if (!is_of(op, p.matrices, part)) continue;
        add_matrix(op, at, {p, i, part, op.rows, op.cols}, all);
      }
  return all;
}

}  // namespace tandem::exec::device
