#pragma once
// From gradients to new weights, over stretches of the pieces of parameters that a rank updates.

#include <limits>

#include "exec/backend/piece_row.hpp"
#include "exec/backend/step_table.hpp"
#include "exec/device/chunk.hpp"
#include "exec/device/typed.hpp"
#include "exec/shared/adamw.hpp"
#include "exec/shared/clipping.hpp"
#include "exec/shared/exact_words.hpp"
#include "exec/shared/philox.hpp"

namespace tandem::exec::device {

inline constexpr std::int64_t kNormBlock = 64, kNormLanes = 16;  ///< as exec/cpu/pieces and lanes have them: the bits of every norm

/// A part of a piece, for one block of threads. It ends at a multiple of 64 elements of the flat buffers, or where its piece ends.
struct Stretch {
  std::int64_t first = 0, count = 0;  ///< of the piece
  std::int32_t piece = 0;
};

/// A rank's pieces and their stretches, in the device's memory.
struct Pieces {
  const PieceRow* rows = nullptr;
  const Stretch* stretches = nullptr;
  std::int64_t count = 0;  ///< of stretches
  std::int64_t end = 0;    ///< elements that the pieces reach in the states
};

/// Adds the squares of every counted gradient, each block of 64 rounded to fp64 first, to an exact sum that was zeroed.
struct NormSumKernel {
  Form form;
  Typed gradients;
  Pieces pieces;
  std::int64_t* sum;

  static constexpr std::int64_t kMostBlocks = 34;  ///< of a stretch: it has at most kStretch elements, and a cut one at either end
  Grid grid() const {
    return {pieces.count, sizeof(double) * static_cast<std::size_t>(kMostBlocks * kNormLanes) + sizeof(std::int64_t) * kExactWords};
  }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    const Stretch stretch = pieces.stretches[block.index()];
    const PieceRow& piece = pieces.rows[stretch.piece];
    if (!piece.counted) return;
    auto* lanes = reinterpret_cast<double*>(block.shared());
    auto* words = reinterpret_cast<std::int64_t*>(lanes + kMostBlocks * kNormLanes);
    block.each(kExactWords, [&](std::int64_t w) { words[w] = 0; });
    const std::int64_t flat = piece.flat + stretch.first, first_block = flat / kNormBlock;
    const std::int64_t blocks = (flat + stretch.count - 1) / kNormBlock - first_block + 1;
    block.each(blocks * kNormLanes, [&](std::int64_t at) {
      const std::int64_t begin = (first_block + at / kNormLanes) * kNormBlock;
      const std::int64_t from = begin > flat ? begin : flat, end = begin + kNormBlock;
      double total = 0;
      for (std::int64_t i = from + at % kNormLanes; i < end && i < flat + stretch.count; i += kNormLanes) {
        const double g = load<double>(gradients, piece.gradient + stretch.first + i - flat);
        total = total + g * g;
      }
      lanes[at] = total;
    });
    block.each(blocks, [&](std::int64_t b) {
      double* mine = lanes + b * kNormLanes;
      for (std::int64_t width = kNormLanes / 2; width > 0; width /= 2)
        for (std::int64_t l = 0; l < width; ++l) mine[l] += mine[l + width];
      const ExactTerm term = exact_term(mine[0]);
      for (std::int64_t w = 0; w < (term.finite ? 3 : 1); ++w) block.add(words + term.at + w, term.words[w]);
    });
    block.each(1, [&](std::int64_t) { carry_exact(words); });
    block.each(kExactWords, [&](std::int64_t w) {
      if (words[w] != 0) block.add(sum + w, words[w]);
    });
  }
};

/// The same words for the same sum.
struct CarryKernel {
  Form form;
  std::int64_t* sum;

  Grid grid() const { return {1}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    block.each(1, [&](std::int64_t) { carry_exact(sum); });
  }
};

/// ClipCoefficient; `rule` where the loss scale moves.
struct ClipKernel {
  Form form;
  const std::int64_t* sum;
  StepTable* table;
  double clip_grad;
  LossScale rule;
  bool scales;

  Grid grid() const { return {1, sizeof(std::int64_t) * kExactWords}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    auto* words = reinterpret_cast<std::int64_t*>(block.shared());
    block.each(kExactWords, [&](std::int64_t w) { words[w] = sum[w]; });
    block.each(1, [&](std::int64_t) {
      carry_exact(words);
      clip(value(words), clip_grad, *table);
      if (scales) move_scale(rule, *table);
    });
  }

 private:
  /// Squares do not add up to less than nothing.
  static TANDEM_HD double value(const std::int64_t* words) {
    if (words[kExactWords - 1] != 0) return std::numeric_limits<double>::quiet_NaN();
    const ExactLead lead = exact_lead(words);
    return lead.infinite ? std::numeric_limits<double>::infinity() : std::ldexp(static_cast<double>(lead.bits), lead.power);
  }
};

/// How values are rounded that stay in 16 bits without a wider copy.
struct RoundAtRandom {
  std::uint64_t seed = 0;
  bool wanted = false;

  /// `buffer`: 0 weights, 1 first moments, 2 second moments; `local`: element of the piece.
  template <class A>
  TANDEM_HD void put(const Typed& to, std::int64_t at, A value, const PieceRow& piece, std::int64_t local, std::uint32_t buffer,
                     std::uint64_t step) const {
    if (!wanted || bits(to.type) != 16) return store(to, at, value);
    const auto name = rounding_name(step, static_cast<std::uint32_t>(piece.init_id), buffer);
    store(to, at, value, random_bits(seed, name, static_cast<std::uint64_t>(piece.map.full_index(piece.first + local))));
  }
};

struct AdamWKernel {
  Form form;
  Typed gradients, weights, exp_avg, exp_avg_sq, master;
  Pieces pieces;
  AdamW op;
  StepTable* table;
  RoundAtRandom random;

  Grid grid() const { return {pieces.count}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    if (table->found_nonfinite) return;
    const Stretch stretch = pieces.stretches[block.index()];
    const PieceRow& piece = pieces.rows[stretch.piece];
    const AdamWStep<A> step(op, *table);
    const A keep = piece.decay ? step.decay : A{1};
    block.each(stretch.count, [&](std::int64_t i) {
      const std::int64_t local = stretch.first + i, state = piece.state + local, weight = piece.weight + local;
      const A before = master.here() ? load<A>(master, state) : load<A>(weights, weight);
      const AdamWElement<A> at{before, load<A>(exp_avg, state), load<A>(exp_avg_sq, state)};
      const AdamWElement<A> next = updated(step, keep, load<A>(gradients, piece.gradient + local), at);
      random.put(exp_avg, state, next.exp_avg, piece, local, 1, table->step);
      random.put(exp_avg_sq, state, next.exp_avg_sq, piece, local, 2, table->step);
      if (!master.here()) return random.put(weights, weight, next.weight, piece, local, 0, table->step);
      store(weights, weight, next.weight);
      store(master, state, next.weight);
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

  Grid grid() const { return {pieces.count}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    if (table->found_nonfinite) return;
    const Stretch stretch = pieces.stretches[block.index()];
    const PieceRow& piece = pieces.rows[stretch.piece];
    const A clip = static_cast<A>(table->clip_coefficient), rate = static_cast<A>(table->learning_rate);
    const A decay = piece.decay ? static_cast<A>(weight_decay) : A{0};
    block.each(stretch.count, [&](std::int64_t i) {
      const std::int64_t local = stretch.first + i, state = piece.state + local, weight = piece.weight + local;
      const A before = master.here() ? load<A>(master, state) : load<A>(weights, weight);
      A moved = load<A>(gradients, piece.gradient + local) * clip + decay * before;
      if (buffer.here()) {
        moved = static_cast<A>(momentum) * load<A>(buffer, state) + moved;
        random.put(buffer, state, moved, piece, local, 1, table->step);
      }
      const A after = before - rate * moved;
      if (!master.here()) return random.put(weights, weight, after, piece, local, 0, table->step);
      store(weights, weight, after);
      store(master, state, after);
    });
  }
};

}  // namespace tandem::exec::device
