#pragma once
// Optimizer updates: gradients to new weights, over ranges of the rank's parameter pieces.

#include "exec/backend/step_table.hpp"
#include "exec/device/pieces.hpp"
#include "exec/device/rows.hpp"
#include "exec/shared/adamw.hpp"
#include "exec/shared/philox.hpp"
#include "exec/shared/sign_step.hpp"

namespace tandem::exec::device {

/// Stochastic rounding of 16-bit values that have no wider master copy.
struct RoundAtRandom {
  std::uint64_t seed = 0;
  bool wanted = false;

  /// `buffer`: 0 weights, 1 first moments, 2 second moments; `local`: element of the piece.
  struct Name {
    const PieceRow& piece;
    std::int64_t local;
    std::uint32_t buffer;
    std::uint64_t step;
  };
  template <class S, class A, int N>
  TANDEM_HD void put(const Typed& to, std::int64_t at, const Wide<A, N>& values, const Name& of) const {
    if (!wanted || bits(to.type) != 16) return device::put<S>(to, at, values);
    const auto name = rounding_name(of.step, static_cast<std::uint32_t>(of.piece.init_id), of.buffer);
    TANDEM_UNROLL
    for (int l = 0; l < N; ++l) {
      const std::int64_t index = of.piece.map.full_index(of.piece.first + of.local + l);
      store(to, at + l, values[l], random_bits(seed, name, static_cast<std::uint64_t>(index)));
    }
  }
};

/// Offsets of a piece's elements in the optimizer's operands.
struct Places {
  std::int64_t local, state, weight, gradient, second;

  TANDEM_HD Places(const PieceRow& piece, std::int64_t at)
      : local(at), state(piece.state + at), weight(piece.weight + at), gradient(piece.gradient + at),
        second(state - piece.unsquared) {}
};

/// Calls body(lanes, places) for the elements of a block's range. Takes several at a time if `may` and if all operands reach
/// 16-byte alignment together.
template <int N, class Block, class F>
TANDEM_HD inline void each_of_range(Block& block, const Pieces& pieces, bool may, F body) {
  const PieceRange range = pieces.ranges[block.index()];
  const PieceRow& piece = pieces.rows[range.piece];
  const Places first(piece, range.first);
  const bool together =
      (first.state - first.weight) % N == 0 && (first.state - first.gradient) % N == 0 && piece.unsquared % N == 0;
  const Span<N> span(first.state, range.count, may && together);
  if (span.pieces > 0)
    block.each(span.pieces, [&](std::int64_t k) { body(Lanes<N>{}, piece, Places(piece, span.piece(k) - piece.state)); });
  if (span.singles() > 0)
    block.each(span.singles(), [&](std::int64_t k) { body(Lanes<1>{}, piece, Places(piece, span.single(k) - piece.state)); });
}

/// The weights of an update, and where they are written.
struct UpdatedWeights {
  const Typed &weights, &master;
  const RoundAtRandom& random;
  std::uint64_t step;

  template <class S, int N>
  TANDEM_HD Wide<typename S::Number, N> get(const Places& at) const {
    return master.here() ? device::get<S, N>(master, at.state) : device::get<S, N>(weights, at.weight);
  }
  template <class S, class A, int N>
  TANDEM_HD void put(const PieceRow& piece, const Places& at, const Wide<A, N>& w) const {
    if (!master.here()) return random.template put<S>(weights, at.weight, w, {piece, at.local, 0, step});
    store_wide(weights, at.weight, w);
    device::put<S>(master, at.state, w);
  }
  /// Replaces the optimizer's rule for parameters with a sign_step.
  template <class S, int N>
  TANDEM_HD void step_by_sign(const Typed& gradients, const PieceRow& piece, const Places& at) const {
    using A = typename S::Number;
    const Wide<A, N> g = device::get<S, N>(gradients, at.gradient);
    Wide<A, N> w = get<S, N>(at);
    TANDEM_UNROLL
    for (int l = 0; l < N; ++l) w[l] -= step_against(piece.sign_step, g[l]);
    put<S>(piece, at, w);
  }
};

struct AdamWKernel {
  Form form;
  Typed gradients, weights, exp_avg, exp_avg_sq, master;
  Pieces pieces;
  AdamW op;
  StepTable* table;
  RoundAtRandom random;

  template <class Variant>
  static constexpr int kResident = 3;
  Grid grid() const { return {pieces.count}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    if (table->found_nonfinite) return;
    const AdamWStep<A> step(op, *table);
    const bool may = are_aligned(kLanes<S>, gradients, weights) && are_aligned(kLanes<S>, exp_avg, exp_avg_sq, master);
    each_of_range<kLanes<S>>(block, pieces, may, [&](auto lanes, const PieceRow& piece, const Places& at) {
      constexpr int n = decltype(lanes)::n;
      if (piece.matrices.any()) return;
      const UpdatedWeights updates{weights, master, random, table->step};
      if (piece.sign_step >= 0) return updates.template step_by_sign<S, n>(gradients, piece, at);
      const A keep = piece.decay ? step.decay : A{1};
      const Wide<A, n> g = get<S, n>(gradients, at.gradient), m = get<S, n>(exp_avg, at.state);
      const Wide<A, n> v = get<S, n>(exp_avg_sq, at.second);
      const Wide<A, n> w = updates.template get<S, n>(at);
      Wide<A, n> w1, m1, v1;
      TANDEM_UNROLL
      for (int l = 0; l < n; ++l) {
        const AdamWElement<A> next = updated(step, keep, g[l], AdamWElement<A>{w[l], m[l], v[l]});
        w1[l] = next.weight, m1[l] = next.exp_avg, v1[l] = next.exp_avg_sq;
      }
      random.template put<S>(exp_avg, at.state, m1, {piece, at.local, 1, table->step});
      random.template put<S>(exp_avg_sq, at.second, v1, {piece, at.local, 2, table->step});
      updates.template put<S>(piece, at, w1);
    });
  }
};

/// PyTorch's SGD without dampening: g += decay w, buffer = momentum buffer + g, w -= rate buffer.
struct SgdKernel {
  Form form;
  Typed gradients, weights, buffer, master;
  Pieces pieces;
  double momentum, weight_decay;
  StepTable* table;
  RoundAtRandom random;

  template <class Variant>
  static constexpr int kResident = 2;
  Grid grid() const { return {pieces.count}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    if (table->found_nonfinite) return;
    const A clip = static_cast<A>(table->clip_coefficient), rate = static_cast<A>(table->learning_rate);
    const bool may = are_aligned(kLanes<S>, gradients, weights, buffer, master);
    each_of_range<kLanes<S>>(block, pieces, may, [&](auto lanes, const PieceRow& piece, const Places& at) {
      constexpr int n = decltype(lanes)::n;
      const UpdatedWeights updates{weights, master, random, table->step};
      if (piece.sign_step >= 0) return updates.template step_by_sign<S, n>(gradients, piece, at);
      const A decay = piece.decay ? static_cast<A>(weight_decay) : A{0};
      Wide<A, n> moved = get<S, n>(gradients, at.gradient), w = updates.template get<S, n>(at);
      TANDEM_UNROLL
      for (int l = 0; l < n; ++l) moved[l] = moved[l] * clip + decay * w[l];
      if (buffer.here()) {
        const Wide<A, n> before = get<S, n>(buffer, at.state);
        TANDEM_UNROLL
        for (int l = 0; l < n; ++l) moved[l] = static_cast<A>(momentum) * before[l] + moved[l];
        random.template put<S>(buffer, at.state, moved, {piece, at.local, 1, table->step});
      }
      TANDEM_UNROLL
      for (int l = 0; l < n; ++l) w[l] -= rate * moved[l];
      updates.template put<S>(piece, at, w);
    });
  }
};

}  // namespace tandem::exec::device
