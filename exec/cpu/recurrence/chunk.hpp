#pragma once
// A recurrence in chunks of positions (arXiv 2405.21060 section 6; arXiv 2412.06464 section 3.3), for one sequence and key head.
//
// Within a chunk, G[i] is the sum of the log-decays up to position i and D[i,j] = exp(G[i] - G[j]), 0 for j > i. With the state S
// before the chunk, and what a position adds to it, k[j] delta[j]^T:
//   y = exp(G) Q S + (Q K^T * D) delta;   S' = exp(G[last]) S + (exp(G[last] - G) K)^T delta.
// mamba2: delta = u v. gated_delta: (I + A) delta = b V - b exp(G) K S, A[i,j] = b[i] D[i,j] k[i] k[j] for j < i; with
// T = (I + A)^-1, delta = T (b V) - (T (b exp(G) K)) S.

#include <algorithm>
#include <cmath>

#include "exec/cpu/call.hpp"
#include "exec/cpu/gemm/gemm.hpp"
#include "exec/cpu/lanes.hpp"
#include "exec/cpu/scratch.hpp"
#include "exec/shared/activations.hpp"
#include "exec/shared/vector_math.hpp"

namespace tandem::exec::cpu {

/// Positions of a sequence.
struct ChunkPlace {
  std::int64_t sequence, first, count;
};

/// The operands of a recurrence, and products of one thread.
template <class T>
struct ScanOperands {
  const RecurrenceDims& dims;
  const T *x, *scalars, *decay, *step, *skip;  ///< skip: nullptr with gated_delta

  /// `at`: the first input that is not the gradient of y.
  ScanOperands(const RecurrenceDims& d, const Call& call, std::size_t at)
      : dims(d), x(call.in<T>(at)), scalars(call.in<T>(at + 1)), decay(call.in<T>(at + 2)), step(call.in<T>(at + 3)),
        skip(delta() ? nullptr : call.in<T>(at + 4)) {}

  bool delta() const { return dims.rule == RecurrenceRule::gated_delta; }
  std::int64_t row(const ChunkPlace& c) const { return c.sequence * dims.seq + c.first; }
  /// Columns of the queries of key head `g`; its keys and values follow.
  std::int64_t query_column(std::int64_t g) const { return g * (2 * dims.key_dim + dims.per_key() * dims.value_dim); }
  std::int64_t value_column(std::int64_t head) const {
    return query_column(head / dims.per_key()) + 2 * dims.key_dim + head % dims.per_key() * dims.value_dim;
  }
  std::int64_t scalar(std::int64_t row, std::int64_t head) const { return row * dims.scalars() + head * (delta() ? 2 : 1); }
  /// Calls body(chunk) for the chunks of a sequence in order.
  template <class F>
  void each_chunk(std::int64_t sequence, F body) const {
    for (std::int64_t at = 0; at < dims.seq; at += dims.chunk())
      body(ChunkPlace{sequence, at, std::min(dims.chunk(), dims.seq - at)});
  }
  std::int64_t longest() const { return std::min(dims.chunk(), dims.seq); }
};

/// Products that are counted.
template <class T>
class Products {
 public:
  explicit Products(Call& call) : call_(call) {}
  /// c[m,n] = a[m,k] b[k,n], row-major without gaps; `add`: plus the old c, and a `scale`.
  void operator()(std::int64_t m, std::int64_t n, std::int64_t k, const T* a, const T* b, T* c, T scale = 1,
                  bool add = false) const {
    run({m, n, k, {a, k}, {b, n}, c, n, scale, add});
  }
  /// c = a b^T.
  void by_rows(std::int64_t m, std::int64_t n, std::int64_t k, const T* a, const T* b, T* c, T scale = 1,
               bool add = false) const {
    run({m, n, k, {a, k}, {b, k, true}, c, n, scale, add});
  }
  /// c = a^T b.
  void by_columns(std::int64_t m, std::int64_t n, std::int64_t k, const T* a, const T* b, T* c, T scale = 1,
                  bool add = false) const {
    run({m, n, k, {a, m, true}, {b, n}, c, n, scale, add});
  }

 private:
  void run(const Product<T>& p) const {
    call_.count_product(p.m, p.n, p.k);
    multiply(p);
  }
  Call& call_;
};

/// Queries and keys of a chunk as the recurrence reads them. With the delta rule they have unit length, and queries a factor.
template <class T>
class ChunkKeys {
 public:
  ChunkKeys(const ScanOperands<T>& of, std::int64_t longest)
      : q(longest * of.dims.key_dim), k(longest * of.dims.key_dim), of_(of), lengths_(2 * longest) {}

  void load(const ChunkPlace& c, std::int64_t g) {
    const std::int64_t n = of_.dims.key_dim;
    for (std::int64_t i = 0; i < c.count; ++i) {
      const T* from = of_.x + (of_.row(c) + i) * of_.dims.mixed() + of_.query_column(g);
      take(from, query_factor(), q.data() + i * n, lengths_.data()[2 * i]);
      take(from + n, T{1}, k.data() + i * n, lengths_.data()[2 * i + 1]);
    }
  }
  /// Turns the gradients of `q` and `k` into those of x, in the chunk's rows of `dx`.
  void put_gradients(const ChunkPlace& c, std::int64_t g, const T* dq, const T* dk, T* dx) const {
    const std::int64_t n = of_.dims.key_dim;
    for (std::int64_t i = 0; i < c.count; ++i) {
      T* to = dx + (of_.row(c) + i) * of_.dims.mixed() + of_.query_column(g);
      give(q.data() + i * n, query_factor(), lengths_.data()[2 * i], dq + i * n, to);
      give(k.data() + i * n, T{1}, lengths_.data()[2 * i + 1], dk + i * n, to + n);
    }
  }

  ScratchArray<T> q, k;

 private:
  T query_factor() const { return T{1} / std::sqrt(static_cast<T>(of_.dims.key_dim)); }
  /// Copies a row of queries or keys. With the delta rule: inverse = 1 / |x|, to = factor * inverse * x.
  void take(const T* x, T factor, T* to, T& inverse) const {
    const std::int64_t n = of_.dims.key_dim;
    if (!of_.delta()) return void(std::copy_n(x, n, to));
    inverse = T{1} / std::sqrt(lane_sum<T>(n, [=](std::int64_t d) { return x[d] * x[d]; }) + static_cast<T>(1e-6));
    each(n, [=, scale = factor * inverse](std::int64_t d) { to[d] = x[d] * scale; });
  }
  /// Gradient of `take` from its output y: dx = factor * inverse * (dy - unit (unit . dy)), where unit = y / factor.
  void give(const T* y, T factor, T inverse, const T* dy, T* dx) const {
    const std::int64_t n = of_.dims.key_dim;
    if (!of_.delta()) return void(std::copy_n(dy, n, dx));
    const T along = lane_sum<T>(n, [=](std::int64_t d) { return y[d] * dy[d]; }) / (factor * factor);
    each(n, [=, scale = factor * inverse](std::int64_t d) { dx[d] = scale * (dy[d] - y[d] * along); });
  }

  const ScanOperands<T>& of_;
  ScratchArray<T> lengths_;
};

/// Results of one value head for a chunk: decays, its addition to the state, and with the delta rule intermediate results.
template <class T>
struct HeadChunk {
  ScratchArray<T> log_decay, sums;     ///< g and G, per position
  ScratchArray<T> amount, learn;       ///< u, and b with the delta rule
  ScratchArray<T> decays;              ///< D, [count, count]
  ScratchArray<T> added;               ///< delta, [count, value_dim]
  ScratchArray<T> pairs, inverse;      ///< D * K K^T below the diagonal, and T
  ScratchArray<T> keys, values;        ///< b exp(G) K and b V
  ScratchArray<T> read;                ///< T keys

  HeadChunk(const RecurrenceDims& d, std::int64_t n, bool delta)
      : log_decay(n), sums(n), amount(n), learn(n), decays(n * n), added(n * d.value_dim), pairs(delta ? n * n : 0),
        inverse(delta ? n * n : 0), keys(delta ? n * d.key_dim : 0), values(delta ? n * d.value_dim : 0),
        read(delta ? n * d.key_dim : 0) {}
};

/// The forward pass of a chunk.
template <class T>
class ChunkScan {
 public:
  ChunkScan(const ScanOperands<T>& of, Call& call) : product(call), of_(of), scaled_(of.longest() * of.dims.key_dim) {}

  /// Decays, and amounts of all positions.
  void load(const ChunkPlace& c, std::int64_t head, HeadChunk<T>& h) const {
    const T rate = -std::exp(of_.decay[head]);
    T sum = 0;
    for (std::int64_t i = 0; i < c.count; ++i) {
      const T* s = of_.scalars + of_.scalar(of_.row(c) + i, head);
      const T u = softplus(s[0] + of_.step[head]);
      h.amount.data()[i] = u;
      h.log_decay.data()[i] = rate * u;
      h.sums.data()[i] = sum += rate * u;
      if (of_.delta()) h.learn.data()[i] = Silu::sigmoid(s[1]);
    }
    for (std::int64_t i = 0; i < c.count; ++i) {
      T* row = h.decays.data() + i * c.count;
      each(i + 1, [=, at = h.sums.data()](std::int64_t j) { row[j] = exp_short(at[i] - at[j]); });
      std::fill(row + i + 1, row + c.count, T{0});
    }
  }
  /// The addition of the chunk's positions to the state.
  void add(const ChunkPlace& c, std::int64_t head, const T* k, const T* state, HeadChunk<T>& h) const {
    of_.delta() ? replace(c, head, k, state, h) : each_value(c, head, h.amount.data(), h.added.data());
  }
  /// y[count, value_dim] without mamba2's skip. `scores`: Q K^T; on return these times D.
  void give(const ChunkPlace& c, const T* q, const T* state, const HeadChunk<T>& h, T* scores, T* y) const {
    const RecurrenceDims& d = of_.dims;
    each(c.count * c.count, [=, at = h.decays.data()](std::int64_t i) { scores[i] *= at[i]; });
    scale_rows(c.count, d.key_dim, q, [&](std::int64_t i) { return exp_short(h.sums.data()[i]); });
    product(c.count, d.value_dim, d.key_dim, scaled_.data(), state, y);
    product(c.count, d.value_dim, c.count, scores, h.added.data(), y, T{1}, true);
  }
  /// The state behind the chunk.
  void pass(const ChunkPlace& c, const T* k, const HeadChunk<T>& h, T* state) const {
    const RecurrenceDims& d = of_.dims;
    each(d.key_dim * d.value_dim, [=, factor = exp_short(h.sums.data()[c.count - 1])](std::int64_t i) { state[i] *= factor; });
    product.by_columns(d.key_dim, d.value_dim, c.count, to_end(c, k, h), h.added.data(), state, T{1}, true);
  }
  /// Keys times the decay from their position to the chunk's end, until the next call.
  const T* to_end(const ChunkPlace& c, const T* k, const HeadChunk<T>& h) const {
    const T* sums = h.sums.data();
    return scale_rows(c.count, of_.dims.key_dim, k, [=](std::int64_t i) { return exp_short(sums[c.count - 1] - sums[i]); });
  }
  /// Row i of `x` times factor(i), in scratch memory until the next call.
  template <class F>
  const T* scale_rows(std::int64_t rows, std::int64_t cols, const T* x, F factor) const {
    scale_rows(rows, cols, x, cols, factor, scaled_.data());
    return scaled_.data();
  }
  template <class F>
  void scale_rows(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t stride, F factor, T* to) const {
    for (std::int64_t i = 0; i < rows; ++i)
      each(cols, [=, f = factor(i), from = x + i * stride, out = to + i * cols](std::int64_t c) { out[c] = f * from[c]; });
  }

  const Products<T> product;

 private:
  void each_value(const ChunkPlace& c, std::int64_t head, const T* factors, T* to) const {
    const T* v = of_.x + of_.row(c) * of_.dims.mixed() + of_.value_column(head);
    scale_rows(c.count, of_.dims.value_dim, v, of_.dims.mixed(), [=](std::int64_t i) { return factors[i]; }, to);
  }
  void replace(const ChunkPlace& c, std::int64_t head, const T* k, const T* state, HeadChunk<T>& h) const {
    const std::int64_t n = c.count, wide = of_.dims.value_dim, narrow = of_.dims.key_dim;
    product.by_rows(n, n, narrow, k, k, h.pairs.data());
    invert(n, h);
    const T *b = h.learn.data(), *sums = h.sums.data();
    scale_rows(n, narrow, k, narrow, [=](std::int64_t i) { return b[i] * exp_short(sums[i]); }, h.keys.data());
    each_value(c, head, b, h.values.data());
    product(n, narrow, n, h.inverse.data(), h.keys.data(), h.read.data());
    product(n, wide, n, h.inverse.data(), h.values.data(), h.added.data());
    product(n, wide, narrow, h.read.data(), state, h.added.data(), T{-1}, true);
  }
  /// T row by row: T[i] = e[i] - sum over j < i of A[i,j] T[j]. A triangular system is no matrix product.
  static void invert(std::int64_t n, HeadChunk<T>& h) {
    for (std::int64_t i = 0; i < n; ++i) {
      T *row = h.pairs.data() + i * n, *to = h.inverse.data() + i * n;
      each(i, [=, at = h.decays.data() + i * n](std::int64_t j) { row[j] *= at[j]; });
      std::fill(row + i, row + n, T{0});
      std::fill_n(to, n, T{0});
      to[i] = 1;
      for (std::int64_t j = 0; j < i; ++j)
        each(j + 1, [=, a = h.learn.data()[i] * row[j], from = h.inverse.data() + j * n](std::int64_t l) { to[l] -= a * from[l]; });
    }
  }

  const ScanOperands<T>& of_;
  ScratchArray<T> scaled_;
};

}  // namespace tandem::exec::cpu
