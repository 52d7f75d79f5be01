#pragma once
// LAMB and LANS (formulas: exec/cpu/update/layerwise): exact norms of every tensor, and the update that uses them.

#include <cmath>
#include <limits>

#include "exec/device/norm_sum.hpp"
#include "exec/device/update.hpp"
#include "exec/shared/exact_words.hpp"

namespace tandem::exec::device {

/// The square root of an exact sum of squares. Carries `words` in place.
TANDEM_HD inline double exact_root(std::int64_t* words) {
  carry_exact(words);
  if (words[kExactWords - 1] != 0) return std::numeric_limits<double>::quiet_NaN();
  const ExactLead lead = exact_lead(words);
  if (lead.infinite) return std::numeric_limits<double>::infinity();
  return std::sqrt(std::ldexp(static_cast<double>(lead.bits), lead.power));
}

inline constexpr std::int64_t kRunBlocks = 1056;  ///< blocks of kernels that work on runs: eight per multiprocessor of an H100

/// Consecutive ranges of one piece: its elements [first, first + count).
struct Run {
  const PieceRow& piece;
  std::int64_t first, count;
};

constexpr std::int64_t run_blocks(const Pieces& pieces) { return pieces.count < kRunBlocks ? pieces.count : kRunBlocks; }

/// Calls body(run) for each run of the block.
template <class Block, class F>
TANDEM_HD inline void each_run(Block& block, const Pieces& pieces, F body) {
  const std::int64_t blocks = run_blocks(pieces), end = pieces.count * (block.index() + 1) / blocks;
  for (std::int64_t s = pieces.count * block.index() / blocks, next = s; s < end; s = next) {
    const PieceRange first = pieces.ranges[s];
    std::int64_t count = 0;
    for (; next < end && pieces.ranges[next].piece == first.piece; ++next) count += pieces.ranges[next].count;
    body(Run{pieces.rows[first.piece], first.first, count});
  }
}

/// Shared memory of kernels that add squares to exact sums, and of blocks that read up to four such sums.
struct SquaresScratch {
  static constexpr int kTeam = 4, kTeams = kThreads / kTeam;  ///< threads per block of 64 elements
  static constexpr int kMostSums = 4;
  ExactWindow windows[kTeams][kMostSums];
  std::int64_t words[kMostSums * kExactWords];
  double roots[kMostSums];
};

template <int N>
struct SquareWindows {
  ExactWindow of[N];
};

/// For each element of a run, numbers(local, out[N]) gives N numbers. Adds their squares to N exact sums, rounding each block of 64
/// elements to fp64 first. If `sums` is null, only calls numbers().
template <int N, class Block, class Numbers>
TANDEM_HD inline void add_squares(Block& block, const Run& run, std::int64_t* sums, Numbers numbers) {
  constexpr int kTeam = SquaresScratch::kTeam, kPerThread = static_cast<int>(kNormLanes) / kTeam;
  using Team = typename Block::template Team<kTeam>;
  SquaresScratch& scratch = *reinterpret_cast<SquaresScratch*>(block.shared());
  block.each(N * kExactWords, [&](std::int64_t w) { scratch.words[w] = 0; });
  const std::int64_t flat = run.piece.flat + run.first, last = flat + run.count, first_block = flat / kNormBlock;
  const auto add = [&](const auto& team, SquareWindows<N>& windows, std::int64_t item) {
    const std::int64_t begin = (first_block + item) * kNormBlock, end = begin + kNormBlock;
    const std::int64_t from = begin > flat ? begin : flat, to = end < last ? end : last;
    typename Team::template Held<Wide<double, kPerThread>, 1> lanes[N];
    team.template each<1>(kTeam, [&](Slot s) {
      TANDEM_UNROLL
      for (int n = 0; n < N; ++n) lanes[n][s] = zeros<double, kPerThread>();
      for (std::int64_t at = from + kPerThread * s.i; at < to; at += kNormLanes) {
        TANDEM_UNROLL
        for (int l = 0; l < kPerThread; ++l) {
          if (at + l >= to) continue;
          double out[N];
          numbers(at + l - run.piece.flat, out);
          TANDEM_UNROLL
          for (int n = 0; n < N; ++n) lanes[n][s][l] = lanes[n][s][l] + squared(out[n]);
        }
      }
    });
    if (sums == nullptr) return;
    TANDEM_UNROLL
    for (int n = 0; n < N; ++n) {
      const auto nothing = zeros<double, kPerThread>();
      const auto all = team.template sum<Wide<double, kPerThread>, 1>(kTeam, nothing, [&](Slot s) { return lanes[n][s]; });
      team.one([&] {
        const ExactTerm term = exact_term((all[0] + all[2]) + (all[1] + all[3]));
        if (windows.of[n].add(term)) return;
        for (int w = 0; w < (term.finite ? 3 : 1); ++w) block.add(scratch.words + n * kExactWords + term.at + w, term.words[w]);
      });
    }
  };
  const auto done = [&](const auto& team, const SquareWindows<N>& windows, int number) {
    team.one([&] {
      for (int n = 0; n < N; ++n) scratch.windows[number][n] = windows.of[n];
    });
  };
  block.template teams<kTeam, SquareWindows<N>>(0, (last - 1) / kNormBlock - first_block + 1, add, done);
  if (sums == nullptr) return;
  block.each(N * kExactWords, [&](std::int64_t at) {
    std::int64_t all = scratch.words[at];
    for (int t = 0; t < SquaresScratch::kTeams; ++t) all += scratch.windows[t][at / kExactWords].word(at % kExactWords);
    if (all != 0) block.add(sums + at, all);
  });
}

/// Stores a value. A 16-bit value without a wider master copy is rounded stochastically if `random` is enabled.
template <class A>
TANDEM_HD inline void put_rounded(const RoundAtRandom& random, const Typed& to, std::int64_t at, A value, const PieceRow& piece,
                                  std::int64_t local, std::uint32_t buffer, std::uint64_t step) {
  if (!random.wanted || bits(to.type) != 16) return store(to, at, value);
  const auto name = rounding_name(step, static_cast<std::uint32_t>(piece.init_id), buffer);
  store(to, at, value, random_bits(random.seed, name, static_cast<std::uint64_t>(piece.map.full_index(piece.first + local))));
}

/// Constants of one element's update.
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

/// Operands shared by both operations of a layer-wise optimizer.
struct LayerwiseOperands {
  Form form;
  LayerwiseKind kind;
  Typed gradients, weights, master, exp_avg, exp_avg_sq;
  const std::int64_t* gradient_sums;  ///< only for LANS
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
  /// Initial factor on a gradient. LAMB: the clip coefficient. LANS: 1 / norm of the tensor's gradient.
  TANDEM_HD double factor(double norm) const {
    if (kind == LayerwiseKind::lamb) return table->clip_coefficient;
    return norm > 0 ? 1 / norm : 0;
  }
};

/// TensorNorms. CarrySumsKernel then makes words equal for equal sums.
struct TensorNormsKernel {
  Form form;
  Typed gradients;
  Pieces pieces;
  std::int64_t* sums;

  Grid grid() const { return {run_blocks(pieces), sizeof(SquaresScratch)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    each_run(block, pieces, [&](const Run& run) {
      if (!run.piece.counted) return;
      add_squares<1>(block, run, sums + run.piece.global_index * kExactWords, [&](std::int64_t local, double* out) {
        out[0] = static_cast<double>(load<A>(gradients, run.piece.gradient + local));
      });
    });
  }
};

/// Carries `count` consecutive exact sums.
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

/// Square roots of a parameter's exact sums: of its gradient (if any), then `updates` of weights and updates.
template <class Block>
TANDEM_HD inline const double* roots_of(Block& block, const LayerwiseOperands& at, std::int64_t parameter, std::int64_t updates) {
  SquaresScratch& scratch = *reinterpret_cast<SquaresScratch*>(block.shared());
  const std::int64_t own = at.kind == LayerwiseKind::lans ? 1 : 0;
  block.each((1 + updates) * kExactWords, [&](std::int64_t i) {
    const std::int64_t sum = i / kExactWords, w = i % kExactWords;
    if (sum > 0) scratch.words[i] = at.sums[(parameter * at.norms() + sum - 1) * kExactWords + w];
    else scratch.words[i] = own == 1 ? at.gradient_sums[parameter * kExactWords + w] : 0;
  });
  block.each(1 + updates, [&](std::int64_t i) { scratch.roots[i] = exact_root(scratch.words + i * kExactWords); });
  return scratch.roots;
}

/// LayerwiseMoments. Norms use the moments as they are stored.
struct LayerwiseMomentsKernel {
  Form form;
  LayerwiseOperands at;

  Grid grid() const { return {run_blocks(at.pieces), sizeof(SquaresScratch)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    if (at.table->found_nonfinite) return;
    each_run(block, at.pieces, [&](const Run& run) {
      if (run.piece.sign_step >= 0) return;
      if (at.kind == LayerwiseKind::lamb) moments<2, A>(block, run);
      else moments<3, A>(block, run);
    });
  }

 private:
  template <int N, class A, class Block>
  TANDEM_HD void moments(Block& block, const Run& run) const {
    const PieceRow& p = run.piece;
    const A factor = static_cast<A>(at.factor(N == 3 ? roots_of(block, at, p.global_index, 0)[0] : 0));
    const A beta1 = static_cast<A>(at.beta1), beta2 = static_cast<A>(at.beta2);
    const LayerwiseTerms<A> terms(at.epsilon, at.weight_decay, *at.table, p);
    std::int64_t* sums = p.counted ? at.sums + p.global_index * N * kExactWords : nullptr;
    add_squares<N>(block, run, sums, [&](std::int64_t local, double* out) {
      const std::int64_t state = p.state + local;
      const A g = load<A>(at.gradients, p.gradient + local) * factor, w = at.weight<A>(p, local);
      const A m = beta1 * load<A>(at.exp_avg, state) + (A{1} - beta1) * g;
      const A v = beta2 * load<A>(at.exp_avg_sq, state) + (A{1} - beta2) * g * g;
      put_rounded(at.random, at.exp_avg, state, m, p, local, 1, at.table->step);
      put_rounded(at.random, at.exp_avg_sq, state, v, p, local, 2, at.table->step);
      const A stored_m = load<A>(at.exp_avg, state), stored_v = load<A>(at.exp_avg_sq, state);
      out[0] = static_cast<double>(w);
      out[1] = static_cast<double>(terms.momentum(w, stored_m, stored_v));
      if constexpr (N == 3) out[2] = static_cast<double>(terms.gradient(w, g, stored_v));
    });
  }
};

/// Kernel of LayerwiseApply: applies the scaled step of LAMB or LANS.
struct LayerwiseApplyKernel {
  Form form;
  LayerwiseOperands at;

  Grid grid() const { return {run_blocks(at.pieces), sizeof(SquaresScratch)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    if (at.table->found_nonfinite) return;
    each_run(block, at.pieces, [&](const Run& run) {
      if (run.piece.sign_step >= 0) step_by_sign<A>(block, run);
      else apply<A>(block, run);
    });
  }

 private:
  template <class A, class Block>
  TANDEM_HD void apply(Block& block, const Run& run) const {
    const PieceRow& p = run.piece;
    const double* roots = roots_of(block, at, p.global_index, at.norms());
    const bool lans = at.kind == LayerwiseKind::lans;
    const double rate = at.table->learning_rate;
    const A factor = static_cast<A>(at.factor(roots[0]));
    const A of_momentum = static_cast<A>(rate * ratio(roots[1], roots[2]) * (lans ? at.beta1 : 1));
    const A of_gradient = lans ? static_cast<A>(rate * ratio(roots[1], roots[3]) * (1 - at.beta1)) : A{0};
    const LayerwiseTerms<A> terms(at.epsilon, at.weight_decay, *at.table, p);
    block.each(run.count, [&](std::int64_t i) {
      const std::int64_t local = run.first + i, state = p.state + local;
      const A w = at.weight<A>(p, local), m = load<A>(at.exp_avg, state), v = load<A>(at.exp_avg_sq, state);
      A change = of_momentum * terms.momentum(w, m, v);
      if (lans) change = change + of_gradient * terms.gradient(w, load<A>(at.gradients, p.gradient + local) * factor, v);
      put(p, local, w - change);
    });
  }
  template <class A, class Block>
  TANDEM_HD void step_by_sign(Block& block, const Run& run) const {
    const PieceRow& p = run.piece;
    block.each(run.count, [&](std::int64_t i) {
      const std::int64_t local = run.first + i;
      put(p, local, at.weight<A>(p, local) - step_against(p.sign_step, load<A>(at.gradients, p.gradient + local)));
    });
  }
  template <class A>
  TANDEM_HD void put(const PieceRow& p, std::int64_t local, A after) const {
    if (!at.master.here()) return put_rounded(at.random, at.weights, p.weight + local, after, p, local, 0, at.table->step);
    store(at.weights, p.weight + local, after);
    store(at.master, p.state + local, after);
  }
  static TANDEM_HD double ratio(double weights, double update) { return weights > 0 && update > 0 ? weights / update : 1; }
};

}  // namespace tandem::exec::device
