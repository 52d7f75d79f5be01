#pragma once
// The backward pass of a recurrence in chunks (formulas: exec/cpu/recurrence/recurrence_backward.cpp). It follows scan.hpp's kernels.

#include "exec/device/recurrence/scan.hpp"

namespace tandem::exec::device {

/// More scratch memory. [lane, value head, chunk] unless said otherwise.
struct ScanGradScratch {
  std::byte *dy, *dadded;         ///< of y and delta, [N, value_dim]
  std::byte* dscores;             ///< of D * Q K^T
  std::byte* dinverse;            ///< of T; then -dA = T^T dT T^T, of which the part below the diagonal counts
  std::byte* dstates;             ///< of the state behind each chunk; before ScanStateGradKernel (exp(G) Q)^T dy
  std::byte* dends;               ///< of exp(G[last] - G) K
  std::byte *score_sums, *pair_sums;  ///< [lane, chunk]: gradients of Q K^T and, twice and symmetric, of K K^T
  std::byte *dq, *dk;             ///< [lane, chunk, N, key_dim]: those of `q` and `k` from both
  std::byte* parts;               ///< [{decay, step, skip}, head, sequence, chunk]: terms of vectors' gradients
};

/// Gradients of the states behind all chunks, from the last chunk to the first; adds to that of what chunks add. One block per some
/// columns of a value head.
struct ScanStateGradKernel {
  Form form;
  ScanSizes sizes;
  ScanScratch scratch;
  ScanGradScratch to;

  TANDEM_HD ScanColumns columns() const { return {form, sizes.key_dim, sizes.length, sizes.value_dim}; }
  Grid grid() const { return columns().grid(sizes.lanes * sizes.per_key); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t n = sizes.length, dim = sizes.key_dim, wide = sizes.value_dim;
    const ScanSlice<A> at = columns().template slice<A>(block);  // of the gradients of the state and of what positions add
    for (std::int64_t number = sizes.chunks - 1; number >= 0; --number) {
      const ScanChunk c = sizes.chunk(at.head / sizes.per_key, at.head % sizes.per_key, number);
      const A* const sum = reinterpret_cast<const A*>(scratch.sums) + c.index * n;
      const A* const keys = reinterpret_cast<const A*>(scratch.k) + c.keys * n * dim;
      A* const kept = reinterpret_cast<A*>(to.dadded) + c.index * n * wide + at.first;
      block.each(n, [&](std::int64_t i) { at.ends[i] = exp_short(sum[n - 1] - sum[i]); });
      block.each(n * at.width, [&](std::int64_t i) { at.added[i] = kept[strided(i, at.width, wide)]; });
      at.add_to_positions(block, [&](std::int64_t i, std::int64_t e) { return at.ends[i] * keys[e]; });
      block.each(n * at.width, [&](std::int64_t i) { kept[strided(i, at.width, wide)] = at.added[i]; });
      A* const states = reinterpret_cast<A*>(to.dstates) + c.index * dim * wide + at.first;
      const A factor = exp_short(sum[n - 1]);
      block.each(dim * at.width, [&](std::int64_t i) {
        A& place = states[strided(i, at.width, wide)];
        const A of_output = place;
        place = at.state[i];
        at.state[i] = factor * at.state[i] + of_output;
      });
      if (!sizes.delta || number == 0) continue;
      const A* const reads = reinterpret_cast<const A*>(scratch.reads) + c.index * n * dim;
      at.add_to_state(block, [&](std::int64_t, std::int64_t e) { return -reads[e]; });  // delta = T b V - reads S
    }
  }
};

/// Gradients of Q K^T and K K^T, summed over the value heads of a key head, in order. One block per chunk of a key head.
struct ScanPairsKernel {
  Form form;
  ScanSizes sizes;
  ScanScratch scratch;
  ScanGradScratch to;

  Grid grid() const { return {sizes.key_chunks()}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t n = sizes.length, lane = block.index() / sizes.chunks, number = block.index() % sizes.chunks;
    A* const scores = reinterpret_cast<A*>(to.score_sums) + block.index() * n * n;
    A* const pairs = reinterpret_cast<A*>(to.pair_sums) + block.index() * n * n;
    block.each(n * n, [&](std::int64_t at) {
      const Cell pair_at = cell_of(at, n);
      const std::int64_t row = pair_at.row, col = pair_at.col, late = row > col ? row : col, early = row > col ? col : row;
      A score = A{0}, pair = A{0};
      for (std::int64_t m = 0; m < sizes.per_key; ++m) {
        const std::int64_t index = sizes.chunk(lane, m, number).index;
        const A* const sum = reinterpret_cast<const A*>(scratch.sums) + index * n;
        const A decay = exp_short(sum[late] - sum[early]);
        if (col <= row) score += decay * reinterpret_cast<const A*>(to.dscores)[index * n * n + at];
        if (sizes.delta && late > early)
          pair -= reinterpret_cast<const A*>(scratch.learn)[index * n + late] * decay *
                  reinterpret_cast<const A*>(to.dinverse)[index * n * n + late * n + early];
      }
      scores[at] = score;
      if (sizes.delta) pairs[at] = pair;
    });
  }
};

/// Gradients of values and scalars, and a chunk's terms of those of vectors. One block per chunk of a value head.
struct ScanHeadGradKernel {
  Form form;
  Typed x, scalars, decay, step, skip;
  Typed dx, dscalars;
  ScanSizes sizes;
  ScanScratch scratch;
  ScanGradScratch to;
  std::int64_t sequences;

  static constexpr std::int64_t kVectors = 6;
  Grid grid() const {
    return {sizes.head_chunks(),
            static_cast<std::size_t>(kVectors * sizes.length) * (form == Form::doubles ? sizeof(double) : sizeof(float))};
  }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const ScanChunk c = sizes.chunk(block.index());
    const std::int64_t n = sizes.length, wide = sizes.value_dim;
    Rows<A> rows;
    rows.sums = reinterpret_cast<A*>(block.shared());
    rows.amount = rows.sums + n, rows.learn = rows.amount + n, rows.skip = rows.learn + n, rows.end = rows.skip + n;
    rows.later = rows.end + n;
    block.template teams<kRowTeam>(0, n, [&](const auto& team, std::int64_t i) { of_position<S>(team, c, i, rows); });
    if (sizes.delta) of_columns(block, c, rows);
    of_end(block, c, rows);
    const A* const dvalues = of<A>(sizes.delta ? scratch.values : to.dadded, c, wide);
    const A *const factors = of<A>(sizes.delta ? scratch.learn : scratch.amount, c, 1), *const dy = of<A>(to.dy, c, wide);
    block.each(c.count * wide, [&](std::int64_t e) {
      const Cell at = cell_of(e, wide);
      A d = factors[at.row] * dvalues[e];
      if (skip.here()) d += load<A>(skip, c.head) * dy[e];
      S::put(dx, sizes.value(c, at.row) + at.col, d);
    });
    put_scalars(block, c, rows);
  }

 private:
  /// Per position: gradients of G, u and b; terms of the skip's and of the keys' decay to the end; sums of later positions.
  template <class A>
  struct Rows {
    A *sums, *amount, *learn, *skip, *end, *later;
  };
  /// A chunk's rows of `cols` numbers in scratch memory.
  template <class A>
  TANDEM_HD const A* of(const std::byte* from, const ScanChunk& c, std::int64_t cols) const {
    return reinterpret_cast<const A*>(from) + c.index * sizes.length * cols;
  }

  // With G[i] all of y[i] grows; what position j adds shrinks with G[j].
  template <class S, class Team, class A>
  TANDEM_HD void of_position(const Team& team, const ScanChunk& c, std::int64_t i, const Rows<A>& rows) const {
    const std::int64_t n = sizes.length, dim = sizes.key_dim, wide = sizes.value_dim;
    const A *const y = of<A>(scratch.y, c, wide) + i * wide, *const dy = of<A>(to.dy, c, wide) + i * wide;
    const A *const added = of<A>(scratch.added, c, wide) + i * wide, *const dadded = of<A>(to.dadded, c, wide) + i * wide;
    const A *const sum = of<A>(scratch.sums, c, 1), *const dend = of<A>(to.dends, c, dim) + i * dim;
    const A* const k = reinterpret_cast<const A*>(scratch.k) + (c.keys * n + i) * dim;
    const auto value = [&](std::int64_t e) { return i < c.count ? S::get(x, sizes.value(c, i) + e) : A{0}; };
    A sums = sum_long<A>(team, wide, [&](std::int64_t e) { return dy[e] * y[e] - added[e] * dadded[e]; });
    const A end = exp_short(sum[n - 1] - sum[i]) * sum_long<A>(team, dim, [&](std::int64_t d) { return k[d] * dend[d]; });
    A amount = A{0}, learn = A{0}, skipped = A{0};
    if (sizes.delta) {
      const A b = of<A>(scratch.learn, c, 1)[i], grown = exp_short(sum[i]);
      const A *const dkeys = of<A>(scratch.keys, c, dim) + i * dim, *const dvalues = of<A>(scratch.values, c, wide) + i * wide;
      const A along = grown * sum_long<A>(team, dim, [&](std::int64_t d) { return k[d] * dkeys[d]; });
      const A row = sum_long<A>(team, i, [&](std::int64_t j) { return pair(c, i, j, sum); });
      learn = sum_long<A>(team, wide, [&](std::int64_t e) { return value(e) * dvalues[e]; }) + along - row;
      sums += b * (along - row);
    } else {
      amount = sum_long<A>(team, wide, [&](std::int64_t e) { return value(e) * dadded[e]; });
      skipped = sum_long<A>(team, wide, [&](std::int64_t e) { return value(e) * dy[e]; });
    }
    team.one([&] {
      rows.sums[i] = sums;
      rows.amount[i] = amount;
      rows.learn[i] = learn;
      rows.skip[i] = skipped;
      rows.end[i] = end;
    });
  }
  /// P[i,j] times the negative gradient of A[i,j] = b[i] P[i,j], where P = D * K K^T.
  template <class A>
  TANDEM_HD A pair(const ScanChunk& c, std::int64_t i, std::int64_t j, const A* sum) const {
    const std::int64_t n = sizes.length, at = i * n + j;
    return exp_short(sum[i] - sum[j]) * reinterpret_cast<const A*>(scratch.pairs)[c.keys * n * n + at] *
           reinterpret_cast<const A*>(to.dinverse)[c.index * n * n + at];
  }
  // A[i,j] shrinks with G[j].
  template <class A, class Block>
  TANDEM_HD void of_columns(Block& block, const ScanChunk& c, const Rows<A>& rows) const {
    const A *const sum = of<A>(scratch.sums, c, 1), *const learn = of<A>(scratch.learn, c, 1);
    block.each(sizes.length, [&](std::int64_t j) {
      A total = A{0};
      for (std::int64_t i = j + 1; i < sizes.length; ++i) total += learn[i] * pair(c, i, j, sum);
      rows.sums[j] += total;
    });
  }
  // The state behind the chunk grows with G[last].
  template <class A, class Block>
  TANDEM_HD void of_end(Block& block, const ScanChunk& c, const Rows<A>& rows) const {
    const std::int64_t n = sizes.length, size = sizes.key_dim * sizes.value_dim;
    const A *const state = reinterpret_cast<const A*>(scratch.states) + c.index * size,
            *const dstate = reinterpret_cast<const A*>(to.dstates) + c.index * size;
    const A old = block.template sum<A>(size, [&](std::int64_t i) { return state[i] * dstate[i]; });
    const A added = block.template sum<A>(n, [&](std::int64_t i) { return rows.end[i]; });
    block.each(1, [&](std::int64_t) { rows.sums[n - 1] += exp_short(of<A>(scratch.sums, c, 1)[n - 1]) * old + added; });
  }
  template <class A, class Block>
  TANDEM_HD void put_scalars(Block& block, const ScanChunk& c, const Rows<A>& rows) const {
    const A rate = -std::exp(load<A>(decay, c.head));
    block.each(1, [&](std::int64_t) {  // log-decay i is in the sums of all later positions
      A later = A{0};
      for (std::int64_t i = sizes.length - 1; i >= 0; --i) rows.later[i] = later += rows.sums[i];
    });
    block.each(sizes.length, [&](std::int64_t i) {
      if (i >= c.count) return void(rows.end[i] = rows.later[i] = rows.skip[i] = A{0});
      const std::int64_t at = sizes.scalar(c, i);
      const A d = (rows.amount[i] + rate * rows.later[i]) * Silu::sigmoid(load<A>(scalars, at) + load<A>(step, c.head));
      store(dscalars, at, d);
      rows.end[i] = d;
      rows.later[i] *= rate * of<A>(scratch.amount, c, 1)[i];
      if (!sizes.delta) return;
      const A b = of<A>(scratch.learn, c, 1)[i];
      store(dscalars, at + 1, rows.learn[i] * b * (A{1} - b));
    });
    block.each(3, [&](std::int64_t vector) {
      const A* const terms = vector == 0 ? rows.later : vector == 1 ? rows.end : rows.skip;
      A sum = A{0};
      for (std::int64_t i = sizes.length - 1; i >= 0; --i) sum += terms[i];
      const std::int64_t number = c.sequence * sizes.chunks + c.first / sizes.length;
      reinterpret_cast<A*>(to.parts)[(vector * sizes.heads() + c.head) * sequences * sizes.chunks + number] = sum;
    });
  }
};

/// Gradients of queries and keys. One warp per row of a key head.
struct ScanKeyGradKernel {
  Form form;
  Typed dx;
  ScanSizes sizes;
  ScanScratch scratch;
  ScanGradScratch to;

  TANDEM_HD std::int64_t items() const { return 2 * sizes.key_chunks() * sizes.length; }
  Grid grid() const { return {parts(items(), kRowsAtOnce)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    each_row(block, items(), [&](const auto& team, std::int64_t item) { give<S>(team, item / 2, item % 2 == 1); });
  }

 private:
  template <class S, class Team>
  TANDEM_HD void give(const Team& team, std::int64_t row, bool key) const {
    using A = typename S::Number;
    const std::int64_t n = sizes.length, dim = sizes.key_dim, at = row / n, i = row % n, lane = at / sizes.chunks;
    const std::int64_t position = at % sizes.chunks * n + i;
    if (position >= sizes.seq) return;
    A* const d = reinterpret_cast<A*>(key ? to.dk : to.dq) + row * dim;
    for (std::int64_t m = 0; m < sizes.per_key; ++m) add(team, sizes.chunk(lane, m, at % sizes.chunks).index, i, key, d);
    const std::int64_t out =
        (sizes.sequence(lane) * sizes.seq + position) * sizes.mixed() + sizes.key_head(lane) * sizes.group() + (key ? dim : 0);
    if (!sizes.delta) return each_long(team, dim, [&](std::int64_t e) { S::put(dx, out + e, d[e]); });
    // dx = factor inverse (dy - unit (unit dy)), where y = factor unit.
    const A* const y = reinterpret_cast<const A*>(key ? scratch.k : scratch.q) + row * dim;
    const A factor = key ? A{1} : A{1} / std::sqrt(static_cast<A>(dim));
    const A along = sum_long<A>(team, dim, [&](std::int64_t e) { return y[e] * d[e]; }) / (factor * factor);
    const A scale = factor * reinterpret_cast<const A*>(scratch.lengths)[2 * row + (key ? 1 : 0)];
    each_long(team, dim, [&](std::int64_t e) { S::put(dx, out + e, scale * (d[e] - y[e] * along)); });
  }
  /// Adds what value head chunk `index` gives. A thread has the same dimensions in every call.
  template <class Team, class A>
  TANDEM_HD void add(const Team& team, std::int64_t index, std::int64_t i, bool key, A* d) const {
    const std::int64_t n = sizes.length, dim = sizes.key_dim, row = (index * n + i) * dim;
    const A* const sum = reinterpret_cast<const A*>(scratch.sums) + index * n;
    const A grown = exp_short(sum[i]);
    if (!key) {
      const A* const of_grown = reinterpret_cast<const A*>(scratch.grown) + row;
      return each_long(team, dim, [&](std::int64_t e) { d[e] += grown * of_grown[e]; });
    }
    const A decay = exp_short(sum[n - 1] - sum[i]);
    const A* const of_end = reinterpret_cast<const A*>(to.dends) + row;
    each_long(team, dim, [&](std::int64_t e) { d[e] += decay * of_end[e]; });
    if (!sizes.delta) return;
    const A factor = reinterpret_cast<const A*>(scratch.learn)[index * n + i] * grown;
    const A* const of_keys = reinterpret_cast<const A*>(scratch.keys) + row;
    each_long(team, dim, [&](std::int64_t e) { d[e] += factor * of_keys[e]; });
  }
};

/// Gradients of vectors: sums over all chunks, in a fixed order. One block per head of a vector.
struct ScanVectorsKernel {
  Form form;
  Typed ddecay, dstep, dskip;
  std::byte* parts;
  std::int64_t heads, chunks;  ///< chunks: of all sequences

  Grid grid() const { return {(dskip.here() ? 3 : 2) * heads}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t vector = block.index() / heads, head = block.index() % heads;
    const A* const from = reinterpret_cast<const A*>(parts) + block.index() * chunks;
    const A sum = block.template sum<A>(chunks, [&](std::int64_t i) { return from[i]; });
    const Typed& to = vector == 0 ? ddecay : vector == 1 ? dstep : dskip;
    block.each(1, [&](std::int64_t) { store(to, head, sum); });
  }
};

}  // namespace tandem::exec::device
