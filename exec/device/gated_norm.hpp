#pragma once
// RMS norms with a SiLU gate, sigmoid gates of elements, and their gradients.

#include <cmath>

#include "exec/device/columns.hpp"
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

/// A norm that a warp processes, kGatedPieces elements of each thread at a time.
inline constexpr int kGatedTeam = 32, kGatedPieces = 8;
template <class Team, class F>
TANDEM_HD inline void each_gated(const Team& team, std::int64_t n, F body) {
  constexpr std::int64_t kOnce = kGatedTeam * kGatedPieces;
  for (std::int64_t first = 0; first < n; first += kOnce)
    team.template each<kGatedPieces>(n - first < kOnce ? n - first : kOnce, [&](Slot s) { body(first + s.i); });
}
template <class A, class Team, class F>
TANDEM_HD inline A sum_gated(const Team& team, std::int64_t n, F term) {
  constexpr std::int64_t kOnce = kGatedTeam * kGatedPieces;
  A total = A{0};
  for (std::int64_t first = 0; first < n; first += kOnce)
    total += team.template sum<A, kGatedPieces>(n - first < kOnce ? n - first : kOnce, A{0}, [&](Slot s) { return term(first + s.i); });
  return total;
}
/// Calls body(team, part) for the block's norms, one per warp.
template <class Block, class F>
TANDEM_HD inline void each_norm(Block& block, std::int64_t count, F body) {
  constexpr std::int64_t kNorms = kThreads / kGatedTeam;
  const std::int64_t first = block.index() * kNorms;
  block.template teams<kGatedTeam>(first, first + kNorms < count ? first + kNorms : count, body);
}

struct GatedNormKernel {
  Form form;
  GatedNormRows of;
  Typed y;
  double epsilon;

  Grid grid() const { return {parts(of.count, kThreads / kGatedTeam)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    each_norm(block, of.count, [&](const auto& team, std::int64_t part) {
      of.gate_first ? norm<S, true>(team, part) : norm<S, false>(team, part);
    });
  }

 private:
  template <class S, bool gate_first, class Team>
  TANDEM_HD void norm(const Team& team, std::int64_t part) const {
    using A = typename S::Number;
    const std::int64_t at = part * of.cols, weights = of.first_weight(part);
    const A squares = sum_gated<A>(team, of.cols, [&](std::int64_t c) {
      const A u = normed<gate_first>(S::get(of.x, at + c), S::get(of.gate, at + c));
      return u * u;
    });
    const A r = A{1} / std::sqrt(squares / static_cast<A>(of.cols) + static_cast<A>(epsilon));
    team.one([&] { store(of.rms, part, r); });
    each_gated(team, of.cols, [&](std::int64_t c) {
      const A g = S::get(of.gate, at + c);
      S::put(y, at + c, normed<gate_first>(S::get(of.x, at + c), g) * r * load<A>(of.weight, weights + c) * behind_norm<gate_first>(g));
    });
  }
};

/// Gradients of x and the gate. One warp per norm.
struct GatedNormGradKernel {
  Form form;
  GatedNormRows of;
  Typed dy, dx, dgate;

  Grid grid() const { return {parts(of.count, kThreads / kGatedTeam)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    each_norm(block, of.count, [&](const auto& team, std::int64_t part) {
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
    const A mean = sum_gated<A>(team, of.cols, [&](std::int64_t c) {
                     const A g = S::get(of.gate, at + c);
                     return up(c) * behind_norm<gate_first>(g) * (normed<gate_first>(S::get(of.x, at + c), g) * r);
                   }) / static_cast<A>(of.cols);
    each_gated(team, of.cols, [&](std::int64_t c) {
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
      const std::int64_t col = begin + i;
      A sum = A{0};
      for (std::int64_t row = all.first(slab); row < all.first(slab + 1); ++row) {
        const std::int64_t at = row * weights() + col;
        const A g = S::get(of.gate, at), x = S::get(of.x, at), r = load<A>(of.rms, at / of.cols);
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
