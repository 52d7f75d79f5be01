#pragma once
// The forward pass of a recurrence in chunks of positions (formulas: exec/cpu/recurrence/chunk.hpp). Products between the positions of
// chunks are batched matrix products on scratch memory; the kernels here do the rest. Only ScanStatesKernel goes through chunks in order.
//
// A lane is a key head of a sequence. Scratch matrices are row-major: [lane, chunk] or [lane, value head of the key head, chunk]. Positions
// behind a sequence's end have zero keys, values and log-decays, so all chunks have one size.

#include <cmath>

#include "exec/device/long_rows.hpp"
#include "exec/device/typed.hpp"
#include "exec/shared/activations.hpp"

namespace tandem::exec::device {

inline constexpr std::int64_t kScanSlab = 32;  ///< columns of keys in shared memory at a time

/// A chunk of a value head.
struct ScanChunk {
  std::int64_t index;              ///< among [lane, value head, chunk]
  std::int64_t keys;               ///< index among [lane, chunk]
  std::int64_t sequence, head;     ///< head: among all value heads
  std::int64_t first, count;       ///< positions of the sequence
};

/// Sizes of a recurrence; a kernel processes `lanes` lanes from `first` on. `per_key`: value heads of a key head.
struct ScanSizes {
  std::int64_t seq, key_heads, per_key, key_dim, value_dim;
  std::int64_t length, chunks;  ///< positions of a chunk; chunks of a sequence
  std::int64_t first, lanes;
  bool delta;

  TANDEM_HD std::int64_t heads() const { return key_heads * per_key; }
  TANDEM_HD std::int64_t mixed() const { return 2 * key_heads * key_dim + heads() * value_dim; }
  TANDEM_HD std::int64_t group() const { return 2 * key_dim + per_key * value_dim; }  ///< columns of a key head
  TANDEM_HD std::int64_t key_chunks() const { return lanes * chunks; }
  TANDEM_HD std::int64_t head_chunks() const { return key_chunks() * per_key; }
  TANDEM_HD std::int64_t sequence(std::int64_t lane) const { return (first + lane) / key_heads; }
  TANDEM_HD std::int64_t key_head(std::int64_t lane) const { return (first + lane) % key_heads; }
  TANDEM_HD std::int64_t count(std::int64_t chunk) const {
    const std::int64_t rest = seq - chunk * length;
    return rest < length ? rest : length;
  }
  TANDEM_HD ScanChunk chunk(std::int64_t lane, std::int64_t member, std::int64_t c) const {
    const std::int64_t keys = lane * chunks + c, index = (lane * per_key + member) * chunks + c;
    return {index, keys, sequence(lane), key_head(lane) * per_key + member, c * length, count(c)};
  }
  TANDEM_HD ScanChunk chunk(std::int64_t index) const {
    return chunk(index / chunks / per_key, index / chunks % per_key, index % chunks);
  }
  TANDEM_HD std::int64_t row(const ScanChunk& c, std::int64_t i) const { return c.sequence * seq + c.first + i; }
  /// Offset in x of a value head's values at position i of a chunk.
  TANDEM_HD std::int64_t value(const ScanChunk& c, std::int64_t i) const {
    return row(c, i) * mixed() + c.head / per_key * group() + 2 * key_dim + c.head % per_key * value_dim;
  }
  TANDEM_HD std::int64_t output(const ScanChunk& c, std::int64_t i) const { return (row(c, i) * heads() + c.head) * value_dim; }
  TANDEM_HD std::int64_t scalar(const ScanChunk& c, std::int64_t i) const {
    return (row(c, i) * heads() + c.head) * (delta ? 2 : 1);
  }
};

/// Scratch memory in the kernels' arithmetic type. N: positions of a chunk.
struct ScanScratch {
  // [lane, chunk]
  std::byte *q, *k;                ///< [N, key_dim]
  std::byte* lengths;              ///< [N, {q, k}]: 1 / length, with the delta rule
  std::byte *queries_keys, *pairs; ///< Q K^T; K K^T with the delta rule
  // [lane, value head, chunk]
  std::byte *sums, *amount, *learn;  ///< G, u and b, per position
  std::byte* inverse;                ///< T
  std::byte *keys, *values;          ///< b exp(G) K and b V; later their gradients
  std::byte* reads;                  ///< T keys; later its gradient
  std::byte* added;                  ///< delta, [N, value_dim]
  std::byte* grown;                  ///< exp(G) Q; later the gradient of it
  std::byte* scores;                 ///< D * Q K^T; later T^T dT
  std::byte* states;                 ///< before each chunk, [key_dim, value_dim]
  std::byte* y;                      ///< [N, value_dim], without mamba2's skip
};

/// Offset of element `i` of a matrix of `cols` columns whose rows are `stride` apart.
TANDEM_HD inline std::int64_t strided(std::int64_t i, std::int64_t cols, std::int64_t stride) {
  const Cell at = cell_of(i, cols);
  return at.row * stride + at.col;
}

/// c[i, j] += sum over k of a(i, k) b(k, j), for c[m, n] in shared memory. A thread adds up kRows x kCols elements in registers.
template <int kRows, int kCols, class A, class Block, class First, class Second>
TANDEM_HD inline void add_product(Block& block, std::int64_t m, std::int64_t n, std::int64_t inner, A* c, First a, Second b) {
  const std::int64_t rows = parts(m, kRows), cols = parts(n, kCols);
  block.each(rows * cols, [&](std::int64_t t) {
    const Cell at = cell_of(t, cols);
    const std::int64_t i = at.row, j = at.col;  // adjacent threads read adjacent columns
    A sums[kRows][kCols] = {};
    for (std::int64_t k = 0; k < inner; ++k) {
      A left[kRows], right[kCols];
      TANDEM_UNROLL
      for (int r = 0; r < kRows; ++r) left[r] = i + r * rows < m ? a(i + r * rows, k) : A{0};
      TANDEM_UNROLL
      for (int s = 0; s < kCols; ++s) right[s] = j + s * cols < n ? b(k, j + s * cols) : A{0};
      TANDEM_UNROLL
      for (int r = 0; r < kRows; ++r) {
        TANDEM_UNROLL
        for (int s = 0; s < kCols; ++s) sums[r][s] += left[r] * right[s];
      }
    }
    TANDEM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TANDEM_UNROLL
      for (int s = 0; s < kCols; ++s)
        if (i + r * rows < m && j + s * cols < n) c[(i + r * rows) * n + j + s * cols] += sums[r][s];
    }
  });
}

/// Queries and keys of chunks. With the delta rule they have unit length, and queries a factor. One warp per row of a head.
struct ScanKeysKernel {
  Form form;
  Typed x;
  ScanSizes sizes;
  ScanScratch scratch;

  TANDEM_HD std::int64_t items() const { return 2 * sizes.key_chunks() * sizes.length; }
  Grid grid() const { return {parts(items(), kRowsAtOnce)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    each_row(block, items(), [&](const auto& team, std::int64_t item) { take<S>(team, item / 2, item % 2 == 1); });
  }

 private:
  template <class S, class Team>
  TANDEM_HD void take(const Team& team, std::int64_t row, bool key) const {
    using A = typename S::Number;
    const std::int64_t dim = sizes.key_dim, at = row / sizes.length, lane = at / sizes.chunks;
    const std::int64_t position = at % sizes.chunks * sizes.length + row % sizes.length;
    A* to = reinterpret_cast<A*>(key ? scratch.k : scratch.q) + row * dim;
    if (position >= sizes.seq) return each_long(team, dim, [&](std::int64_t d) { to[d] = A{0}; });
    const std::int64_t from =
        (sizes.sequence(lane) * sizes.seq + position) * sizes.mixed() + sizes.key_head(lane) * sizes.group() + (key ? dim : 0);
    A scale = A{1};
    if (sizes.delta) {
      const A squares = sum_long<A>(team, dim, [&](std::int64_t d) { return S::get(x, from + d) * S::get(x, from + d); });
      const A inverse = A{1} / std::sqrt(squares + static_cast<A>(1e-6));
      team.one([&] { reinterpret_cast<A*>(scratch.lengths)[2 * row + (key ? 1 : 0)] = inverse; });
      scale = key ? inverse : inverse / std::sqrt(static_cast<A>(dim));
    }
    each_long(team, dim, [&](std::int64_t d) { to[d] = S::get(x, from + d) * scale; });
  }
};

/// G, u and b. One block per chunk of a value head.
struct ScanGatesKernel {
  Form form;
  Typed scalars, decay, step;
  ScanSizes sizes;
  ScanScratch scratch;

  static constexpr int kBlockThreads = 128;
  Grid grid() const {
    return {sizes.head_chunks(), static_cast<std::size_t>(sizes.length) * (form == Form::doubles ? sizeof(double) : sizeof(float))};
  }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const ScanChunk c = sizes.chunk(block.index());
    const std::int64_t n = sizes.length, to = c.index * n;
    A* sum = reinterpret_cast<A*>(block.shared());
    const A rate = -std::exp(load<A>(decay, c.head));
    block.each(n, [&](std::int64_t i) {
      const bool there = i < c.count;
      const A u = there ? softplus(load<A>(scalars, sizes.scalar(c, i)) + load<A>(step, c.head)) : A{0};
      reinterpret_cast<A*>(scratch.amount)[to + i] = u;
      if (sizes.delta)
        reinterpret_cast<A*>(scratch.learn)[to + i] = there ? Silu::sigmoid(load<A>(scalars, sizes.scalar(c, i) + 1)) : A{0};
      sum[i] = rate * u;
    });
    block.each(1, [&](std::int64_t) {
      for (std::int64_t i = 1; i < n; ++i) sum[i] += sum[i - 1];
    });
    block.each(n, [&](std::int64_t i) { reinterpret_cast<A*>(scratch.sums)[to + i] = sum[i]; });
  }
};

/// What chunks' products read: exp(G) Q and D * Q K^T; with the delta rule T, b exp(G) K and b V, else u V. One block per chunk of a
/// value head. `dy`, if it is there, is copied to `dy_to`.
struct ScanFactorsKernel {
  Form form;
  Typed x, dy;
  ScanSizes sizes;
  ScanScratch scratch;
  std::byte* dy_to;

  Grid grid() const {
    const std::int64_t n = sizes.length, numbers = 3 * n + (sizes.delta ? 2 * n * n : 0);
    return {sizes.head_chunks(), static_cast<std::size_t>(numbers) * (form == Form::doubles ? sizeof(double) : sizeof(float))};
  }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const ScanChunk c = sizes.chunk(block.index());
    const std::int64_t n = sizes.length, dim = sizes.key_dim, wide = sizes.value_dim;
    A *sum = reinterpret_cast<A*>(block.shared()), *growth = sum + n, *factor = growth + n, *system = factor + n;
    const A* const q = reinterpret_cast<const A*>(scratch.q) + c.keys * n * dim;
    const A* const k = reinterpret_cast<const A*>(scratch.k) + c.keys * n * dim;
    const A* const factors = reinterpret_cast<const A*>(sizes.delta ? scratch.learn : scratch.amount);
    block.each(n, [&](std::int64_t i) {
      sum[i] = reinterpret_cast<const A*>(scratch.sums)[c.index * n + i];
      growth[i] = exp_short(sum[i]);
      factor[i] = factors[c.index * n + i];
    });
    if (sizes.delta) {
      invert(block, c, sum, factor, system);
      A* const keys = reinterpret_cast<A*>(scratch.keys) + c.index * n * dim;
      block.each(n * dim, [&](std::int64_t i) { keys[i] = factor[cell_of(i, dim).row] * growth[cell_of(i, dim).row] * k[i]; });
    }
    A* const grown = reinterpret_cast<A*>(scratch.grown) + c.index * n * dim;
    block.each(n * dim, [&](std::int64_t i) { grown[i] = growth[cell_of(i, dim).row] * q[i]; });
    A* const values = reinterpret_cast<A*>(sizes.delta ? scratch.values : scratch.added) + c.index * n * wide;
    block.each(n * wide, [&](std::int64_t i) {
      const Cell at = cell_of(i, wide);
      values[i] = at.row < c.count ? factor[at.row] * S::get(x, sizes.value(c, at.row) + at.col) : A{0};
    });
    const A* const products = reinterpret_cast<const A*>(scratch.queries_keys) + c.keys * n * n;
    A* const scores = reinterpret_cast<A*>(scratch.scores) + c.index * n * n;
    block.each(n * n, [&](std::int64_t i) {
      const Cell at = cell_of(i, n);
      scores[i] = at.col <= at.row ? exp_short(sum[at.row] - sum[at.col]) * products[i] : A{0};
    });
    if (!dy.here()) return;
    A* const gradient = reinterpret_cast<A*>(dy_to) + c.index * n * wide;
    block.each(n * wide, [&](std::int64_t i) {
      const Cell at = cell_of(i, wide);
      gradient[i] = at.row < c.count ? S::get(dy, sizes.output(c, at.row) + at.col) : A{0};
    });
  }

 private:
  /// T = (I + A)^-1, A[i,j] = b[i] D[i,j] k[i] k[j] below the diagonal. A thread solves for a column.
  template <class A, class Block>
  TANDEM_HD void invert(Block& block, const ScanChunk& c, const A* sum, const A* learn, A* system) const {
    const std::int64_t n = sizes.length;
    const A* const pairs = reinterpret_cast<const A*>(scratch.pairs) + c.keys * n * n;
    A* const solved = system + n * n;
    block.each(n * n, [&](std::int64_t e) {
      const Cell at = cell_of(e, n);
      system[e] = at.col < at.row ? learn[at.row] * exp_short(sum[at.row] - sum[at.col]) * pairs[e] : A{0};
    });
    block.each(n, [&](std::int64_t col) {
      for (std::int64_t i = 0; i < n; ++i) {
        A value = i == col ? A{1} : A{0};
        for (std::int64_t j = col; j < i; ++j) value -= system[i * n + j] * solved[j * n + col];
        solved[i * n + col] = value;
      }
    });
    A* const inverse = reinterpret_cast<A*>(scratch.inverse) + c.index * n * n;
    block.each(n * n, [&](std::int64_t at) { inverse[at] = solved[at]; });
  }
};

/// Some columns of a value head's state, which goes through the chunks, and what positions add to it, in shared memory. `F` below
/// is [N, key_dim]; `factor(i, e)` gives its element of row i, where e is the element's offset in a matrix of that size.
template <class A>
struct ScanSlice {
  std::int64_t length, key_dim;
  std::int64_t head, first, width;  ///< head: among [lane, value head of the key head]; first column; columns
  A *state, *added;                 ///< [key_dim, width]; [N, width]
  A *slab, *ends;                   ///< [N, kScanSlab]: columns of F; [N]

  /// added += F state.
  template <class Block, class Factor>
  TANDEM_HD void add_to_positions(Block& block, Factor factor) const {
    slabs(block, factor, [&](std::int64_t k, std::int64_t here) {
      add_product<4, 2>(block, length, width, here, added, [&](std::int64_t i, std::int64_t d) { return slab[i * here + d]; },
                        [&](std::int64_t d, std::int64_t e) { return state[(k + d) * width + e]; });
    });
  }
  /// state += F^T added.
  template <class Block, class Factor>
  TANDEM_HD void add_to_state(Block& block, Factor factor) const {
    slabs(block, factor, [&](std::int64_t k, std::int64_t here) {
      add_product<2, 2>(block, here, width, length, state + k * width,
                        [&](std::int64_t d, std::int64_t i) { return slab[i * here + d]; },
                        [&](std::int64_t i, std::int64_t e) { return added[i * width + e]; });
    });
  }

 private:
  /// Calls use(first column, columns) for every kScanSlab columns of F, which then are in `slab`.
  template <class Block, class Factor, class Use>
  TANDEM_HD void slabs(Block& block, Factor factor, Use use) const {
    for (std::int64_t k = 0; k < key_dim; k += kScanSlab) {
      const std::int64_t here = key_dim - k < kScanSlab ? key_dim - k : kScanSlab;
      block.each(length * here, [&](std::int64_t i) {
        const Cell at = cell_of(i, here);
        slab[i] = factor(at.row, at.row * key_dim + k + at.col);
      });
      use(k, here);
    }
  }
};

/// Columns of a value head's state that a block has, so that its shared memory is small: the state, what positions add, and keys.
struct ScanColumns {
  Form form;
  std::int64_t key_dim, length, value_dim;

  constexpr std::size_t bytes(std::int64_t columns) const {
    const auto numbers = static_cast<std::size_t>(key_dim * columns + length * (columns + kScanSlab + 1));
    return numbers * (form == Form::doubles ? sizeof(double) : sizeof(float));
  }
  /// Columns do not read each other, so their number changes no result.
  constexpr std::int64_t each() const {
    constexpr std::size_t kMost = std::size_t{96} << 10;
    std::int64_t columns = 32;
    while (columns > 1 && (bytes(columns) > kMost || columns / 2 >= value_dim)) columns /= 2;
    return columns;
  }
  constexpr std::int64_t blocks() const { return parts(value_dim, each()); }
  Grid grid(std::int64_t heads) const { return {heads * blocks(), bytes(each())}; }

  /// The columns of a block of this grid. The state is zero.
  template <class A, class Block>
  TANDEM_HD ScanSlice<A> slice(Block& block) const {
    const std::int64_t columns = each(), of_head = blocks();
    const std::int64_t head = block.index() / of_head, first = block.index() % of_head * columns;
    const std::int64_t width = value_dim - first < columns ? value_dim - first : columns;
    A *state = reinterpret_cast<A*>(block.shared()), *added = state + key_dim * width;
    A *slab = added + length * width, *ends = slab + length * kScanSlab;
    block.each(key_dim * width, [&](std::int64_t i) { state[i] = A{0}; });
    return {length, key_dim, head, first, width, state, added, slab, ends};
  }
};

/// States before all chunks, and with the delta rule what chunks add. One block per some columns of a value head.
struct ScanStatesKernel {
  Form form;
  ScanSizes sizes;
  ScanScratch scratch;

  TANDEM_HD ScanColumns columns() const { return {form, sizes.key_dim, sizes.length, sizes.value_dim}; }
  Grid grid() const { return columns().grid(sizes.lanes * sizes.per_key); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t n = sizes.length, dim = sizes.key_dim, wide = sizes.value_dim;
    const ScanSlice<A> at = columns().template slice<A>(block);
    for (std::int64_t number = 0; number < sizes.chunks; ++number) {
      const ScanChunk c = sizes.chunk(at.head / sizes.per_key, at.head % sizes.per_key, number);
      A* const states = reinterpret_cast<A*>(scratch.states) + c.index * dim * wide + at.first;
      block.each(dim * at.width, [&](std::int64_t i) { states[strided(i, at.width, wide)] = at.state[i]; });
      A* const values = reinterpret_cast<A*>(scratch.added) + c.index * n * wide + at.first;
      block.each(n * at.width, [&](std::int64_t i) { at.added[i] = values[strided(i, at.width, wide)]; });
      if (sizes.delta) {
        const A* const reads = reinterpret_cast<const A*>(scratch.reads) + c.index * n * dim;
        at.add_to_positions(block, [&](std::int64_t, std::int64_t e) { return -reads[e]; });
        block.each(n * at.width, [&](std::int64_t i) { values[strided(i, at.width, wide)] = at.added[i]; });
      }
      if (number + 1 < sizes.chunks) pass(block, c, at);
    }
  }

 private:
  /// S' = exp(G[last]) S + (exp(G[last] - G) K)^T delta.
  template <class A, class Block>
  TANDEM_HD void pass(Block& block, const ScanChunk& c, const ScanSlice<A>& at) const {
    const std::int64_t n = sizes.length, dim = sizes.key_dim;
    const A* const sum = reinterpret_cast<const A*>(scratch.sums) + c.index * n;
    const A* const keys = reinterpret_cast<const A*>(scratch.k) + c.keys * n * dim;
    block.each(n, [&](std::int64_t i) { at.ends[i] = exp_short(sum[n - 1] - sum[i]); });
    const A factor = exp_short(sum[n - 1]);
    block.each(dim * at.width, [&](std::int64_t i) { at.state[i] *= factor; });
    at.add_to_state(block, [&](std::int64_t i, std::int64_t e) { return at.ends[i] * keys[e]; });
  }
};

/// y in its place, with mamba2's skip.
struct ScanOutputKernel {
  Form form;
  Typed x, skip, y;
  ScanSizes sizes;
  ScanScratch scratch;

  TANDEM_HD std::int64_t elements() const { return sizes.lanes * sizes.seq * sizes.per_key * sizes.value_dim; }
  Grid grid() const { return chunks(elements()); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    each_in_chunk(block, elements(), [&](std::int64_t at) {
      const Cell dim = cell_of(at, sizes.value_dim), member = cell_of(dim.row, sizes.per_key);
      const Cell place = cell_of(member.row, sizes.seq);
      const std::int64_t i = place.col % sizes.length;
      const ScanChunk c = sizes.chunk(place.row, member.col, place.col / sizes.length);
      A value = reinterpret_cast<const A*>(scratch.y)[(c.index * sizes.length + i) * sizes.value_dim + dim.col];
      if (skip.here()) value += load<A>(skip, c.head) * S::get(x, sizes.value(c, i) + dim.col);
      S::put(y, sizes.output(c, i) + dim.col, value);
    });
  }
};

}  // namespace tandem::exec::device
