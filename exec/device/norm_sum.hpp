#pragma once
// The exact gradient norm, clipping and the loss scale.

#include <limits>

#include "exec/backend/step_table.hpp"
#include "exec/device/pieces.hpp"
#include "exec/device/rows.hpp"
#include "exec/shared/clipping.hpp"
#include "exec/shared/exact_words.hpp"

namespace tandem::exec::device {

/// Five consecutive words of an exact sum, which hold most terms of a tensor.
struct ExactWindow {
  std::int64_t at = -1;  ///< index of the first word; -1: empty
  std::int64_t words[5] = {};

  /// Adds a term; returns false if it does not fit into the window.
  TANDEM_HD bool add(const ExactTerm& term) {
    if (!term.finite) return false;
    if (at < 0) at = term.at > 0 ? term.at - 1 : 0;
    const std::int64_t off = term.at - at;
    if (off < 0 || off > 2) return false;
    TANDEM_UNROLL
    for (int w = 0; w < 5; ++w)
      words[w] += w == off ? term.words[0] : w == off + 1 ? term.words[1] : w == off + 2 ? term.words[2] : 0;
    return true;
  }
  TANDEM_HD std::int64_t word(std::int64_t i) const { return at >= 0 && i >= at && i < at + 5 ? words[i - at] : 0; }
};

/// x * x, rounded. Prevents the compiler from fusing it with an addition.
TANDEM_HD inline double squared(double x) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(x, x);
#else
  return x * x;
#endif
}

/// Adds the squares of all counted gradients to an exact sum that starts at zero. Each block of 64 is first rounded to fp64, which
/// gives the CPU's bits. A word can take 2^31 terms before carrying, more than a rank's number of blocks.
struct NormSumKernel {
  Form form;
  Typed gradients;
  Pieces pieces;
  std::int64_t* sum;

  static constexpr int kTeam = 4, kTeams = kThreads / kTeam;     ///< threads per block of 64 elements
  static constexpr std::int64_t kBlocks = 32;                    ///< blocks of 64 elements per range
  static constexpr std::int64_t kGrid = 1056;                    ///< eight per multiprocessor of an H100
  TANDEM_HD std::int64_t blocks() const { return pieces.count < kGrid ? pieces.count : kGrid; }
  Grid grid() const { return {blocks(), sizeof(ExactWindow) * kTeams + sizeof(std::int64_t) * kExactWords}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    auto* windows = reinterpret_cast<ExactWindow*>(block.shared());
    auto* words = reinterpret_cast<std::int64_t*>(windows + kTeams);
    block.each(kExactWords, [&](std::int64_t w) { words[w] = 0; });
    const std::int64_t first = pieces.count * block.index() / blocks(), end = pieces.count * (block.index() + 1) / blocks();
    const auto add = [&](const auto& team, ExactWindow& window, std::int64_t item) {
      const Part part = part_of(item);
      if (part.count <= 0) return;
      const double square = squares(team, part);
      team.one([&] {
        const ExactTerm term = exact_term(square);
        if (window.add(term)) return;
        for (int w = 0; w < (term.finite ? 3 : 1); ++w) block.add(words + term.at + w, term.words[w]);
      });
    };
    const auto done = [&](const auto& team, const ExactWindow& window, int number) { team.one([&] { windows[number] = window; }); };
    block.template teams<kTeam, ExactWindow>(first * kBlocks, end * kBlocks, add, done);
    block.each(kExactWords, [&](std::int64_t w) {
      std::int64_t all = words[w];
      for (int t = 0; t < kTeams; ++t) all += windows[t].word(w);
      if (all != 0) block.add(sum + w, all);
    });
  }

 private:
  /// A block of 64 elements, or the part of it that a piece has.
  struct Part {
    std::int64_t first, count;
  };
  TANDEM_HD Part part_of(std::int64_t item) const {
    const PieceRange range = pieces.ranges[item / kBlocks];
    const PieceRow& piece = pieces.rows[range.piece];
    if (!piece.counted) return {0, 0};
    const std::int64_t flat = piece.flat + range.first, last = flat + range.count;
    const std::int64_t begin = (flat / kNormBlock + item % kBlocks) * kNormBlock, end = begin + kNormBlock;
    const std::int64_t from = begin > flat ? begin : flat, to = end < last ? end : last;
    return {piece.gradient + range.first + from - flat, to - from};
  }
  /// Sums 16 lanes, four per thread, in pairs: upper half onto lower half until one is left.
  template <class Team>
  TANDEM_HD double squares(const Team& team, const Part& part) const {
    const bool whole = part.count == kNormBlock && part.first % 4 == 0 && is_aligned(gradients, 4);
    const Wide<double, 4> lanes = team.template sum<Wide<double, 4>, 1>(kTeam, zeros<double, 4>(), [&](Slot s) {
      return whole ? whole_lanes(part.first + 4 * s.i) : cut_lanes(part, 4 * s.i);
    });
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
  }
  TANDEM_HD Wide<double, 4> whole_lanes(std::int64_t first) const {
    Wide<double, 4> all = zeros<double, 4>();
    if (bits(gradients.type) == 32) {  // load four before the first is used
      Cells<float, 4> four[kNormBlock / kNormLanes];
      TANDEM_UNROLL
      for (int k = 0; k < kNormBlock / kNormLanes; ++k) four[k] = load_cells<float, 4>(gradients, first + k * kNormLanes);
      TANDEM_UNROLL
      for (int k = 0; k < kNormBlock / kNormLanes; ++k) add_squares(all, numbers_of<double>(four[k]));
    } else {
      TANDEM_UNROLL
      for (int k = 0; k < kNormBlock / kNormLanes; ++k) add_squares(all, load_wide<double, 4>(gradients, first + k * kNormLanes));
    }
    return all;
  }
  TANDEM_HD Wide<double, 4> cut_lanes(const Part& part, std::int64_t lane) const {
    Wide<double, 4> all = zeros<double, 4>();
    for (std::int64_t i = lane; i < part.count; i += kNormLanes) {
      Wide<double, 4> four = zeros<double, 4>();
      TANDEM_UNROLL
      for (int l = 0; l < 4; ++l) four[l] = i + l < part.count ? load<double>(gradients, part.first + i + l) : 0.0;
      add_squares(all, four);
    }
    return all;
  }
  static TANDEM_HD void add_squares(Wide<double, 4>& all, const Wide<double, 4>& x) {
    TANDEM_UNROLL
    for (int l = 0; l < 4; ++l) all[l] = all[l] + squared(x[l]);
  }
};

/// Carries an exact sum, so that equal sums have equal words.
struct CarryKernel {
  Form form;
  std::int64_t* sum;

  Grid grid() const { return {1}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    block.each(1, [&](std::int64_t) { carry_exact(sum); });
  }
};

/// ClipCoefficient. `rule` is present if the loss scale is dynamic.
struct ClipKernel {
  Form form;
  const std::int64_t* sum;
  StepTable* table;
  double clip_grad;
  LossScale rule;
  bool scales;

  template <class Variant>
  static constexpr int kResident = 1;
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
  /// The value of a sum of squares, which cannot be negative.
  static TANDEM_HD double value(const std::int64_t* words) {
    if (words[kExactWords - 1] != 0) return std::numeric_limits<double>::quiet_NaN();
    const ExactLead lead = exact_lead(words);
    return lead.infinite ? std::numeric_limits<double>::infinity() : std::ldexp(static_cast<double>(lead.bits), lead.power);
  }
};

}  // namespace tandem::exec::device
