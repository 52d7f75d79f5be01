#pragma once
// RMS norms of query and key heads, and their gradients. One warp per head of a token.

#include <cmath>

#include "exec/device/columns.hpp"
#include "exec/device/typed.hpp"

namespace tandem::exec::device {

/// Largest head sizes that a warp keeps: usual ones, and with four times the registers longer ones.
inline constexpr std::int64_t kMostOfHead = 256, kMostOfLongHead = 1024;

/// Query and key heads (and value heads, if normed) of all tokens, ordered (token, group, {queries, k, v}). Gives each row's offset
/// in qkv and in the kept copy.
struct HeadRows {
  std::int64_t tokens, groups, queries, dim, width;  ///< queries and columns per group
  std::int64_t value = 0;                            ///< size of a value head; 0: values are not normed

  TANDEM_HD std::int64_t of_group() const { return value > 0 ? queries + 2 : queries + 1; }
  TANDEM_HD std::int64_t count() const { return tokens * groups * of_group(); }
  TANDEM_HD std::int64_t in_qkv(std::int64_t row) const { return row / of_group() * width + row % of_group() * dim; }
  TANDEM_HD std::int64_t in_kept(std::int64_t row) const {
    return row / of_group() * ((queries + 1) * dim + value) + row % of_group() * dim;
  }
  TANDEM_HD bool is_key(std::int64_t row) const { return row % of_group() == queries; }
  TANDEM_HD bool is_value(std::int64_t row) const { return row % of_group() > queries; }
  TANDEM_HD std::int64_t length(std::int64_t row) const { return is_value(row) ? value : dim; }
};

/// qkv[head] = norm of the head; kept = its old value. `tied`: value heads become the normed keys before their weight.
template <std::int64_t kMost>
struct HeadNormOf {
  Form form;
  Typed qkv, of_queries, of_keys, kept;  ///< of_queries, of_keys: weights, if there are any
  HeadRows rows;
  double epsilon;
  bool tied = false;

  static constexpr int kTeam = 32, kPieces = kMost / kTeam;
  static constexpr std::int64_t kRows = 4 * kThreads / kTeam;  ///< per block
  Grid grid() const { return {parts(rows.count(), kRows)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    const std::int64_t first = block.index() * kRows, end = first + kRows < rows.count() ? first + kRows : rows.count();
    block.template teams<kTeam>(first, end, [&](const auto& team, std::int64_t row) { one<S>(team, row); });
  }

 private:
  template <class S, class Team>
  TANDEM_HD void one(const Team& team, std::int64_t row) const {
    using A = typename S::Number;
    const std::int64_t at = rows.in_qkv(row), kept_at = rows.in_kept(row), length = rows.length(row);
    const bool key = rows.is_key(row);
    const Typed gamma = rows.is_value(row) ? Typed{} : key ? of_keys : of_queries;
    typename Team::template Held<A, kPieces> x;
    const A squares = team.template sum<A, kPieces>(length, A{0}, [&](Slot s) {
      x[s] = tied ? S::get(kept, kept_at + s.i) : S::get(qkv, at + s.i);
      return x[s] * x[s];
    });
    const A rstd = A{1} / std::sqrt(squares / static_cast<A>(length) + static_cast<A>(epsilon));
    team.template each<kPieces>(length, [&](Slot s) {
      if (!tied) S::put(kept, kept_at + s.i, x[s]);
      if (tied && key) S::put(qkv, at + rows.dim + s.i, x[s] * rstd);
      S::put(qkv, at + s.i, gamma.here() ? x[s] * rstd * load<A>(gamma, s.i) : x[s] * rstd);
    });
  }
};

/// Number of blocks that each sum a share of the rows. It is the same on every device.
constexpr std::int64_t head_norm_slabs(std::int64_t rows) {
  constexpr std::int64_t kMost = 264, kLeast = 64;
  const std::int64_t all = parts(rows, kLeast);
  return all < kMost ? all : kMost;
}
constexpr std::int64_t head_norm_scratch(std::int64_t rows, std::int64_t dim) {
  return head_norm_slabs(rows) * 2 * dim * static_cast<std::int64_t>(sizeof(double));
}

/// dqkv[head] = gradient of the norm's input: rstd (g - xhat mean(g xhat)) with g = dy gamma. With weights, `partials` [slab,
/// {queries, keys}, dim] gets each block's part of their gradients, for ColumnFoldKernel. With `dkept` the result goes there, and a
/// key's g includes the gradient of its tied value.
template <std::int64_t kMost>
struct HeadNormGradOf {
  Form form;
  Typed dqkv, kept, of_queries, of_keys, partials;
  HeadRows rows;
  double epsilon;
  Typed dkept = {};

  static constexpr int kTeam = 32, kPieces = kMost / kTeam, kTeams = kThreads / kTeam;
  /// Shared memory for the weights' gradients of each warp.
  static constexpr std::size_t bytes(Form form, std::int64_t dim) {
    return static_cast<std::size_t>(kTeams * 2 * dim) * (form == Form::doubles ? sizeof(double) : sizeof(float));
  }
  Grid grid() const { return {head_norm_slabs(rows.count()), bytes(form, rows.dim)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    using State = Sums<typename Block::template Team<kTeam>::template Held<A, kPieces>>;
    const std::int64_t slabs = head_norm_slabs(rows.count()), slab = block.index(), dim = rows.dim;
    A* apart = reinterpret_cast<A*>(block.shared());
    const auto add = [&](const auto& team, State& state, std::int64_t row) { one<S>(team, state, row); };
    if (!partials.here()) {
      block.template teams<kTeam, State>(rows.count() * slab / slabs, rows.count() * (slab + 1) / slabs, add,
                                         [](const auto&, State&, int) {});
      return;
    }
    const auto done = [&](const auto& team, State& state, int number) {
      team.template each<kPieces>(dim, [&](Slot s) {
        apart[number * 2 * dim + s.i] = state.queries[s];
        apart[(number * 2 + 1) * dim + s.i] = state.keys[s];
      });
    };
    block.template teams<kTeam, State>(rows.count() * slab / slabs, rows.count() * (slab + 1) / slabs, add, done);
    A* partial = as<A>(partials) + slab * 2 * dim;
    block.each(2 * dim, [&](std::int64_t c) {
      A sum = apart[c];
      for (int t = 1; t < kTeams; ++t) sum += apart[t * 2 * dim + c];
      partial[c] = sum;
    });
  }

 private:
  template <class Held>
  struct Sums {
    Held queries, keys;
  };
  template <class S, class Team, class State>
  TANDEM_HD void one(const Team& team, State& state, std::int64_t row) const {
    using A = typename S::Number;
    const std::int64_t at = rows.in_qkv(row), kept_at = rows.in_kept(row), length = rows.length(row);
    const bool key = rows.is_key(row), value = rows.is_value(row), tied = dkept.here();
    const Typed gamma = value ? Typed{} : key ? of_keys : of_queries;
    const A count = static_cast<A>(length);
    typename Team::template Held<A, kPieces> x, g;
    const A squares = team.template sum<A, kPieces>(length, A{0}, [&](Slot s) {
      x[s] = S::get(kept, kept_at + s.i);
      g[s] = S::get(dqkv, at + s.i);
      return x[s] * x[s];
    });
    const A rstd = A{1} / std::sqrt(squares / count + static_cast<A>(epsilon));
    const A mean = team.template sum<A, kPieces>(length, A{0}, [&](Slot s) {
      x[s] *= rstd;
      if (key) state.keys[s] += g[s] * x[s];  // two branches: a choice between the arrays would put both into local memory
      else if (!value) state.queries[s] += g[s] * x[s];
      g[s] *= weight<A>(gamma, s.i);
      if (tied && key) g[s] += S::get(dqkv, at + rows.dim + s.i);
      return g[s] * x[s];
    }) / count;
    team.template each<kPieces>(length, [&](Slot s) {
      const A result = rstd * (g[s] - x[s] * mean);
      if (tied) S::put(dkept, kept_at + s.i, result);
      else S::put(dqkv, at + s.i, result);
    });
  }
  template <class A>
  TANDEM_HD static A weight(const Typed& gamma, std::int64_t i) {
    return gamma.here() ? load<A>(gamma, i) : A{1};
  }
};

using HeadNormKernel = HeadNormOf<kMostOfHead>;
using LongHeadNormKernel = HeadNormOf<kMostOfLongHead>;
using HeadNormGradKernel = HeadNormGradOf<kMostOfHead>;
using LongHeadNormGradKernel = HeadNormGradOf<kMostOfLongHead>;

}  // namespace tandem::exec::device
