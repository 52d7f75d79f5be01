#pragma once
// Muon (formulas: exec/cpu/update/muon): momentum, norm, scaling and update of one matrix. Products are works of their own.

#include <cmath>

#include "exec/device/chunk.hpp"
#include "exec/device/layerwise.hpp"
#include "exec/shared/newton_schulz.hpp"

namespace tandem::exec::device {

/// One matrix of a piece.
struct MuonMatrix {
  PieceRow piece;
  std::int64_t stacked;      ///< its number among those that the parameter stacks
  std::int32_t part;
  std::int64_t rows, cols;

  TANDEM_HD std::int64_t elements() const { return rows * cols; }
  /// The piece's element at a place of the matrix.
  TANDEM_HD std::int64_t local(const Cell& at) const {
    const MatrixParts& m = piece.matrices;
    const std::int64_t run = m.runs[part];
    const std::int64_t before = part == 0 ? 0 : part == 1 ? m.runs[0] : m.runs[0] + m.runs[1];
    const std::int64_t row = (stacked * m.periods + at.row / run) * (m.runs[0] + m.runs[1] + m.runs[2]) + before + at.row % run;
    return row * cols + at.col;
  }
  /// Its place in X, whose shorter side comes first.
  TANDEM_HD std::int64_t in_x(const Cell& at) const { return rows > cols ? at.col * rows + at.row : at.row * cols + at.col; }
};

/// Updates the momentum and writes the matrix that is to be made orthogonal.
struct MuonMomentumKernel {
  Form form;
  MuonMatrix of;
  Typed gradients, buffer, x;
  double momentum;
  bool nesterov;
  StepTable* table;
  RoundAtRandom random;

  Grid grid() const { return chunks(of.elements()); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    if (table->found_nonfinite) return;
    const A clip = static_cast<A>(table->clip_coefficient), mu = static_cast<A>(momentum);
    each_in_chunk(block, of.elements(), [&](std::int64_t i) {
      const Cell at = cell_of(i, of.cols);
      const std::int64_t local = of.local(at);
      const A g = load<A>(gradients, of.piece.gradient + local) * clip;
      const A kept = mu * load<A>(buffer, of.piece.state + local) + g;
      put_rounded(random, buffer, of.piece.state + local, kept, of.piece, local, 1, table->step);
      store(x, of.in_x(at), nesterov ? g + mu * kept : kept);
    });
  }
};

/// Sums of squares of chunks of X.
struct MuonSquaresKernel {
  Form form;
  Typed x;
  std::int64_t elements;
  double* sums;

  Grid grid() const { return chunks(elements); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    const std::int64_t first = block.index() * kChunk, rest = elements - first;
    const double sum = block.template sum<double>(rest < kChunk ? rest : kChunk, [&](std::int64_t i) {
      const double value = load<double>(x, first + i);
      return value * value;
    });
    block.each(1, [&](std::int64_t) { sums[block.index()] = sum; });
  }
};

/// From such sums to the factor that divides X by its norm, at sums[count].
struct MuonNormKernel {
  Form form;
  double* sums;
  std::int64_t count;

  Grid grid() const { return {1}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    const double all = block.template sum<double>(count, [&](std::int64_t i) { return sums[i]; });
    block.each(1, [&](std::int64_t) { sums[count] = 1 / (std::sqrt(all) + kMuonEpsilon); });
  }
};

/// to = factor from, with the factor at `at` if that is not null.
struct MuonScaleKernel {
  Form form;
  Typed from, to;
  std::int64_t elements;
  double factor;
  const double* at;

  Grid grid() const { return chunks(elements); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const A by = static_cast<A>(at != nullptr ? *at : factor);
    each_in_chunk(block, elements, [&](std::int64_t i) { store(to, i, by * load<A>(from, i)); });
  }
};

/// Moves the weights by the matrix that was made orthogonal.
struct MuonApplyKernel {
  Form form;
  MuonMatrix of;
  Typed x, weights, master;
  double scale, weight_decay;
  StepTable* table;
  RoundAtRandom random;

  Grid grid() const { return chunks(of.elements()); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    if (table->found_nonfinite) return;
    const double rate = table->learning_rate;
    const A keep = static_cast<A>(1 - rate * (of.piece.decay ? weight_decay : 0)), step = static_cast<A>(rate * scale);
    each_in_chunk(block, of.elements(), [&](std::int64_t i) {
      const Cell at = cell_of(i, of.cols);
      const std::int64_t local = of.local(at), weight = of.piece.weight + local, state = of.piece.state + local;
      const A before = master.here() ? load<A>(master, state) : load<A>(weights, weight);
      const A after = keep * before - step * load<A>(x, of.in_x(at));
      if (!master.here()) return put_rounded(random, weights, weight, after, of.piece, local, 0, table->step);
      store(weights, weight, after);
      store(master, state, after);
    });
  }
};

}  // namespace tandem::exec::device
