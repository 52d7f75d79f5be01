#pragma once
// LAMB and LANS (exec/cpu/layerwise has the formulas): norms of every tensor as exact sums, and what these make of an update.

#include <cmath>
#include <limits>

#include "exec/device/update.hpp"
#include "exec/shared/exact_words.hpp"

namespace tandem::exec::device {

/// The root of an exact sum of squares; `words` are carried in place.
TANDEM_HD inline double exact_root(std::int64_t* words) {
  carry_exact(words);
  if (words[kExactWords - 1] != 0) return std::numeric_limits<double>::quiet_NaN();
  const ExactLead lead = exact_lead(words);
  if (lead.infinite) return std::numeric_limits<double>::infinity();
  return std::sqrt(std::ldexp(static_cast<double>(lead.bits), lead.power));
}

/// Shared memory of `add_squares`, and of a block that reads up to four exact sums.
struct SquaresRoom {
  static constexpr std::int64_t kMostBlocks = 34;  ///< of a stretch, a cut one at either end
  static constexpr std::int64_t kMostSums = 4;
  double lanes[kMostBlocks * kNormLanes];
  std::int64_t words[kMostSums * kExactWords];
  double roots[kMostSums];
};

/// Adds the squares of value(0 .. count - 1) of a stretch to an exact sum, each block of 64 rounded to fp64 first.
template <class Block, class Value>
TANDEM_HD inline void add_squares(Block& block, const PieceRow& piece, const Stretch& stretch, std::int64_t* sum, Value value) {
  SquaresRoom& room = *reinterpret_cast<SquaresRoom*>(block.shared());
  block.each(kExactWords, [&](std::int64_t w) { room.words[w] = 0; });
  const std::int64_t flat = piece.flat + stretch.first, first_block = flat / kNormBlock;
  const std::int64_t blocks = (flat + stretch.count - 1) / kNormBlock - first_block + 1;
  block.each(blocks * kNormLanes, [&](std::int64_t at) {
    const std::int64_t begin = (first_block + at / kNormLanes) * kNormBlock;
    const std::int64_t from = begin > flat ? begin : flat, end = begin + kNormBlock;
    double total = 0;
    for (std::int64_t i = from + at % kNormLanes; i < end && i < flat + stretch.count; i += kNormLanes) {
      const double x = static_cast<double>(value(i - flat));
      total = total + x * x;
    }
    room.lanes[at] = total;
  });
  block.each(blocks, [&](std::int64_t b) {
    double* mine = room.lanes + b * kNormLanes;
    for (std::int64_t width = kNormLanes / 2; width > 0; width /= 2)
      for (std::int64_t l = 0; l < width; ++l) mine[l] += mine[l + width];
    const ExactTerm term = exact_term(mine[0]);
    for (std::int64_t w = 0; w < (term.finite ? 3 : 1); ++w) block.add(room.words + term.at + w, term.words[w]);
  });
  block.each(1, [&](std::int64_t) { carry_exact(room.words); });
  block.each(kExactWords, [&](std::int64_t w) {
    if (room.words[w] != 0) block.add(sum + w, room.words[w]);
  });
}

/// A value of 16 bits that no wider copy stands behind is rounded at random where that is wanted.
template <class A>
TANDEM_HD inline void put_rounded(const RoundAtRandom& random, const Typed& to, std::int64_t at, A value, const PieceRow& piece,
                                  std::int64_t local, std::uint32_t buffer, std::uint64_t step) {
  if (!random.wanted || bits(to.type) != 16) return store(to, at, value);
  const auto name = rounding_name(step, static_cast<std::uint32_t>(piece.init_id), buffer);
  store(to, at, value, random_bits(random.seed, name, static_cast<std::uint64_t>(piece.map.full_index(piece.first + local))));
}

/// The terms of one element's update.
template <class A>
struct LayerwiseTerms {
  A correction1, sqrt_correction2, epsilon, decay;

  TANDEM_HD LayerwiseTerms(double epsilon_of, double weight_decay, const StepTable& s, const PieceRow& p)
      : correction1(static_cast<A>(s.bias_correction1)), sqrt_correction2(static_cast<A>(std::sqrt(s.bias_correction2))),
        epsilon(static_cast<A>(epsilon_of)), decay(p.decay ? static_cast<A>(weight_decay) : A{0}) {}

  TANDEM_HD A denominator(A v) const { return std::sqrt(v) / sqrt_correction2 + epsilon; }
  TANDEM_HD A momentum(A w, A m, A v) const { return m / correction1 / denominator(v) + decay * w; }
  TANDEM_HD A gradient(A w, A g, A v) const { return g / denominator(v) + decay * w; }
};

/// The operands that both of a layer-wise optimizer's operations have.
struct LayerwiseOperands {
  Form form;
  LayerwiseKind kind;
  Typed gradients, weights, master, exp_avg, exp_avg_sq;
  const std::int64_t* gradient_sums;  ///< LANS alone
  std::int64_t* sums;
  double beta1, beta2, epsilon, weight_decay;
  Pieces pieces;
  StepTable* table;
  RoundAtRandom random;

  TANDEM_HD std::int64_t norms() const { return kind == LayerwiseKind::lamb ? 2 : 3; }
  template <class A>
  TANDEM_HD A weight(const PieceRow& p, std::int64_t local) const {
    return master.here() ? load<A>(master, p.state + local) : load<A>(weights, p.weight + local);
  }
  /// What a gradient is multiplied by before anything else. The first of the roots is that of its own sum, where there is one.
  TANDEM_HD double factor(double norm) const {
    if (kind == LayerwiseKind::lamb) return table->clip_coefficient;
    return norm > 0 ? 1 / norm : 0;
  }
};

/// TensorNorms, and the same words for the same sums in CarrySumsKernel behind it.
struct TensorNormsKernel {
  Form form;
  Typed gradients;
  Pieces pieces;
  std::int64_t* sums;

  Grid grid() const { return {pieces.count, sizeof(SquaresRoom)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const Stretch stretch = pieces.stretches[block.index()];
    const PieceRow& piece = pieces.rows[stretch.piece];
    if (!piece.counted) return;
    add_squares(block, piece, stretch, sums + piece.global_index * kExactWords,
                [&](std::int64_t i) { return load<A>(gradients, piece.gradient + stretch.first + i); });
  }
};

/// Carries `count` exact sums that follow each other.
struct CarrySumsKernel {
  Form form;
  std::int64_t* sums;
  std::int64_t count;

  static constexpr std::int64_t kSumsOfBlock = 32;
  Grid grid() const { return {(count + kSumsOfBlock - 1) / kSumsOfBlock}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    const std::int64_t first = block.index() * kSumsOfBlock, rest = count - first;
    block.each(rest < kSumsOfBlock ? rest : kSumsOfBlock, [&](std::int64_t i) { carry_exact(sums + (first + i) * kExactWords); });
  }
};

/// The roots of a stretch's exact sums: of its gradient, then `updates` of weights and updates.
template <class Block>
TANDEM_HD inline const double* roots_of(Block& block, const LayerwiseOperands& at, std::int64_t parameter, std::int64_t updates) {
  SquaresRoom& room = *reinterpret_cast<SquaresRoom*>(block.shared());
  const std::int64_t own = at.kind == LayerwiseKind::lans ? 1 : 0;
  block.each((1 + updates) * kExactWords, [&](std::int64_t i) {
    const std::int64_t sum = i / kExactWords, w = i % kExactWords;
    if (sum > 0) room.words[i] = at.sums[(parameter * at.norms() + sum - 1) * kExactWords + w];
    else room.words[i] = own == 1 ? at.gradient_sums[parameter * kExactWords + w] : 0;
  });
  block.each(1 + updates, [&](std::int64_t i) { room.roots[i] = exact_root(room.words + i * kExactWords); });
  return room.roots;
}

/// LayerwiseMoments: norms are of the moments as they are stored.
struct LayerwiseMomentsKernel {
  Form form;
  LayerwiseOperands at;

  Grid grid() const { return {at.pieces.count, sizeof(SquaresRoom)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    if (at.table->found_nonfinite) return;
    const Stretch stretch = at.pieces.stretches[block.index()];
    const PieceRow& p = at.pieces.rows[stretch.piece];
    const A factor = static_cast<A>(at.factor(roots_of(block, at, p.global_index, 0)[0]));
    const auto gradient = [&](std::int64_t local) { return load<A>(at.gradients, p.gradient + local) * factor; };
    const A beta1 = static_cast<A>(at.beta1), beta2 = static_cast<A>(at.beta2);
    block.each(stretch.count, [&](std::int64_t i) {
      const std::int64_t local = stretch.first + i, state = p.state + local;
      const A g = gradient(local);
      const A m = beta1 * load<A>(at.exp_avg, state) + (A{1} - beta1) * g;
      const A v = beta2 * load<A>(at.exp_avg_sq, state) + (A{1} - beta2) * g * g;
      put_rounded(at.random, at.exp_avg, state, m, p, local, 1, at.table->step);
      put_rounded(at.random, at.exp_avg_sq, state, v, p, local, 2, at.table->step);
    });
    if (!p.counted) return;
    const LayerwiseTerms<A> terms(at.epsilon, at.weight_decay, *at.table, p);
    std::int64_t* sums = at.sums + p.global_index * at.norms() * kExactWords;
    add_squares(block, p, stretch, sums, [&](std::int64_t i) { return at.weight<A>(p, stretch.first + i); });
    add_squares(block, p, stretch, sums + kExactWords, [&](std::int64_t i) {
      const std::int64_t local = stretch.first + i, state = p.state + local;
      return terms.momentum(at.weight<A>(p, local), load<A>(at.exp_avg, state), load<A>(at.exp_avg_sq, state));
    });
    if (at.kind != LayerwiseKind::lans) return;
    add_squares(block, p, stretch, sums + 2 * kExactWords, [&](std::int64_t i) {
      const std::int64_t local = stretch.first + i;
      return terms.gradient(at.weight<A>(p, local), gradient(local), load<A>(at.exp_avg_sq, p.state + local));
    });
  }
};

/// LayerwiseApply.
struct LayerwiseApplyKernel {
  Form form;
  LayerwiseOperands at;

  Grid grid() const { return {at.pieces.count, sizeof(SquaresRoom)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    if (at.table->found_nonfinite) return;
    const Stretch stretch = at.pieces.stretches[block.index()];
    const PieceRow& p = at.pieces.rows[stretch.piece];
    const double* roots = roots_of(block, at, p.global_index, at.norms());
    const bool lans = at.kind == LayerwiseKind::lans;
    const double rate = at.table->learning_rate;
    const A factor = static_cast<A>(at.factor(roots[0]));
    const A of_momentum = static_cast<A>(rate * ratio(roots[1], roots[2]) * (lans ? at.beta1 : 1));
    const A of_gradient = lans ? static_cast<A>(rate * ratio(roots[1], roots[3]) * (1 - at.beta1)) : A{0};
    const LayerwiseTerms<A> terms(at.epsilon, at.weight_decay, *at.table, p);
    block.each(stretch.count, [&](std::int64_t i) {
      const std::int64_t local = stretch.first + i, state = p.state + local;
      const A w = at.weight<A>(p, local), m = load<A>(at.exp_avg, state), v = load<A>(at.exp_avg_sq, state);
      A change = of_momentum * terms.momentum(w, m, v);
      if (lans) change = change + of_gradient * terms.gradient(w, load<A>(at.gradients, p.gradient + local) * factor, v);
      const A after = w - change;
      if (!at.master.here()) return put_rounded(at.random, at.weights, p.weight + local, after, p, local, 0, at.table->step);
      store(at.weights, p.weight + local, after);
      store(at.master, state, after);
    });
  }

 private:
  static TANDEM_HD double ratio(double weights, double update) { return weights > 0 && update > 0 ? weights / update : 1; }
};

}  // namespace tandem::exec::device
