#pragma once
// RMS norms with a SiLU gate, sigmoid gates of elements, and their gradients.

#include <cmath>

#include "exec/device/columns.hpp"
#include "exec/device/long_rows.hpp"
#include "exec/device/typed.hpp"
#include "exec/shared/gated_norm.hpp"

namespace tandem::exec::device {

/// Operands of a gated norm: `count` norms of `cols` numbers each. The norm at `part` has weights from part % sets * cols.
struct GatedNormRows {
  Typed x, gate, weight, rms;
  std::int64_t count, cols, sets;
  bool gate_first;

  TANDEM_HD std::int64_t first_weight(std::int64_t part) const { return part % sets * cols; }
};

struct GatedNormKernel {
  Form form;
  GatedNormRows of;
  Typed y;
  double epsilon;

  Grid grid() const { return {parts(of.count, kRowsAtOnce)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    each_row(block, of.count, [&](const auto& team, std::int64_t part) {
      of.gate_first ? norm<S, true>(team, part) : norm<S, false>(team, part);
    });
  }

 private:
  template <class S, bool gate_first, class Team>
  TANDEM_HD void norm(const Team& team, std::int64_t part) const {
    using A = typename S::Number;
    const std::int64_t at = part * of.cols, weights = of.first_weight(part);
    const A squares = sum_long<A>(team, of.cols, [&](std::int64_t c) {
      const A u = normed<gate_first>(S::get(of.x, at + c), S::get(of.gate, at + c));
      return u * u;
    });
    const A r = A{1} / std::sqrt(squares / static_cast<A>(of.cols) + static_cast<A>(epsilon));
    team.one([&] { store(of.rms, part, r); });
    each_long(team, of.cols, [&](std::int64_t c) {
      const A g = S::get(of.gate, at + c);
      const A scaled = normed<gate_first>(S::get(of.x, at + c), g) * r * load<A>(of.weight, weights + c);
      S::put(y, at + c, scaled * behind_norm<gate_first>(g));
    });
  }
};

/// Gradients of x and the gate. One warp per norm.
struct GatedNormGradKernel {
  Form form;
  GatedNormRows of;
  Typed dy, dx, dgate;

  Grid grid() const { return {parts(of.count, kRowsAtOnce)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    each_row(block, of.count, [&](const auto& team, std::int64_t part) {
      of.gate_first ? gradient<S, true>(team, part) : gradient<S, false>(team, part);
    });
  }

 private:
  template <class S, bool gate_first, class Team>
  TANDEM_HD void gradient(const Team& team, std::int64_t part) const {
    using A = typename S::Number;
    const std::int64_t at = part * of.cols, weights = of.first_weight(part);
    const A r = load<A>(of.rms, part);
    const auto up = [&](std::int64_t c) { return S::get(dy, at + c) * load<A>(of.weight, weights + c); };
    const A mean = sum_long<A>(team, of.cols, [&](std::int64_t c) {
                     const A g = S::get(of.gate, at + c);
                     return up(c) * behind_norm<gate_first>(g) * (normed<gate_first>(S::get(of.x, at + c), g) * r);
                   }) / static_cast<A>(of.cols);
    each_long(team, of.cols, [&](std::int64_t c) {
      const auto d = gated_norm_gradient<gate_first>(S::get(of.x, at + c), S::get(of.gate, at + c), up(c), r, mean);
      S::put(dx, at + c, d.dx);
      S::put(dgate, at + c, d.dgate);
    });
  }
};

/// A slab's partial sums of the weights' gradients, for ColumnFoldKernel: [slab, weights]. One block per slab and kThreads weights.
struct GatedNormWeightGradKernel {
  Form form;
  GatedNormRows of;
  Typed dy;
  std::byte* partials;

  TANDEM_HD std::int64_t weights() const { return of.sets * of.cols; }
  TANDEM_HD Slabs slabs() const { return column_slabs(of.count / of.sets, weights()); }
  Grid grid() const { return {slabs().count * parts(weights(), kThreads)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const Slabs all = slabs();
    const std::int64_t slab = block.index() % all.count, begin = block.index() / all.count * kThreads;
    block.each(weights() - begin < kThreads ? weights() - begin : kThreads, [&](std::int64_t i) {
      const std::int64_t col = begin + i, part = col / of.cols;
      A sum = A{0};
      for (std::int64_t row = all.first(slab); row < all.first(slab + 1); ++row) {
        const std::int64_t at = row * weights() + col;
        const A g = S::get(of.gate, at), x = S::get(of.x, at), r = load<A>(of.rms, row * of.sets + part);
        sum += S::get(dy, at) * (of.gate_first ? normed<true>(x, g) * r : x * r * behind_norm<false>(g));
      }
      reinterpret_cast<A*>(partials)[slab * weights() + col] = sum;
    });
  }
};

/// y = x sigmoid(gate), element by element. If `dy` exists, y becomes the gradient of x, and dgate the gate's.
struct SigmoidGateKernel {
  Form form;
  Typed dy, x, gate, y, dgate;
  std::int64_t elements;

  Grid grid() const { return chunks(elements); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    each_in_chunk(block, elements, [&](std::int64_t i) {
      const A share = Silu::sigmoid(S::get(gate, i)), value = S::get(x, i);
      if (!dy.here()) return S::put(y, i, value * share);
      const A d = S::get(dy, i);
      S::put(y, i, d * share);
      S::put(dgate, i, d * value * share * (A{1} - share));
    });
  }
};

}  // namespace tandem::exec::device
