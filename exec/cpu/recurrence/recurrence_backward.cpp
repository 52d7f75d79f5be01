// The backward pass of a recurrence. It computes the states before all chunks again, then goes through the chunks from the last to
// the first with the gradient of the state behind each. Threads share sequences and key heads.
#include <vector>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/recurrence/chunk.hpp"
#include "exec/cpu/split.hpp"

namespace tandem::exec::cpu {
namespace {

// Where gradients go. Vectors' gradients are sums over sequences: each sequence has its own row of `parts`.
template <class T>
struct ScanGradients {
  const T* dy;
  T *dx, *dscalars;
  T* parts;  // [batch, {decay, step, skip}, heads]

  T* part(const RecurrenceDims& d, std::int64_t sequence, std::int64_t vector) const {
    return parts + (sequence * 3 + vector) * d.heads;
  }
};

// Gradients of one value head's chunk.
template <class T>
struct HeadGradients {
  ScratchArray<T> dy, y;              // [count, value_dim]
  ScratchArray<T> scores, dscores;    // [count, count]
  ScratchArray<T> added, values;      // of delta and of b V
  ScratchArray<T> end;                // of keys times the decay to the chunk's end, [count, key_dim]
  ScratchArray<T> sums, amount, learn;
  ScratchArray<T> read, keys, inverse;

  HeadGradients(const RecurrenceDims& d, std::int64_t n, bool delta)
      : dy(n * d.value_dim), y(n * d.value_dim), scores(n * n), dscores(n * n), added(n * d.value_dim),
        values(delta ? n * d.value_dim : 0), end(n * d.key_dim), sums(n), amount(n), learn(n), read(delta ? n * d.key_dim : 0),
        keys(delta ? n * d.key_dim : 0), inverse(delta ? n * n : 0) {}
};

// One sequence and key head at a time.
template <class T>
class BackwardScan {
 public:
  BackwardScan(const ScanOperands<T>& of, const ScanGradients<T>& to, Call& call)
      : of_(of), to_(to), scan_(of, call), keys_(of, of.longest()), g_(of.dims, of.longest(), of.delta()),
        shared_(of.longest() * of.longest()), dshared_(of.longest() * of.longest()), dq_(of.longest() * of.dims.key_dim),
        dk_(of.longest() * of.dims.key_dim), dstates_(of.dims.per_key() * state_size()), dstate_(state_size()) {
    of_.each_chunk(0, [&](const ChunkPlace& c) { places_.push_back(c); });
    for (std::size_t i = 0; i < places_.size() * static_cast<std::size_t>(of.dims.per_key()); ++i) {
      heads_.emplace_back(of.dims, of.longest(), of.delta());
      states_.emplace_back(state_size());
    }
  }

  void run(std::int64_t sequence, std::int64_t g) {
    for (ChunkPlace& c : places_) c.sequence = sequence;
    forward(g);
    std::fill_n(dstates_.data(), of_.dims.per_key() * state_size(), T{0});
    for (std::size_t c = places_.size(); c-- > 0;) backward(c, g);
  }

 private:
  std::int64_t state_size() const { return of_.dims.key_dim * of_.dims.value_dim; }
  std::int64_t head_of(std::int64_t g, std::int64_t i) const { return g * of_.dims.per_key() + i; }
  std::size_t slot(std::size_t chunk, std::int64_t i) const {
    return chunk * static_cast<std::size_t>(of_.dims.per_key()) + static_cast<std::size_t>(i);
  }

  // The states before all chunks, and what the chunks add.
  void forward(std::int64_t g) {
    for (std::size_t c = 0; c < places_.size(); ++c) {
      keys_.load(places_[c], g);
      for (std::int64_t i = 0; i < of_.dims.per_key(); ++i) {
        HeadChunk<T>& h = heads_[slot(c, i)];
        T* const state = states_[slot(c, i)].data();
        if (c == 0) std::fill_n(state, state_size(), T{0});
        scan_.load(places_[c], head_of(g, i), h);
        scan_.add(places_[c], head_of(g, i), keys_.k.data(), state, h);
        T* const behind = c + 1 < places_.size() ? states_[slot(c + 1, i)].data() : dstate_.data();
        std::copy_n(state, state_size(), behind);
        scan_.pass(places_[c], keys_.k.data(), h, behind);
      }
    }
  }

  void backward(std::size_t chunk, std::int64_t g) {
    const ChunkPlace& c = places_[chunk];
    const std::int64_t pairs = c.count * c.count, keys = c.count * of_.dims.key_dim;
    keys_.load(c, g);
    std::fill_n(dq_.data(), keys, T{0});
    std::fill_n(dk_.data(), keys, T{0});
    if (!of_.delta()) {
      scores(c, shared_.data());
      std::fill_n(dshared_.data(), pairs, T{0});
    }
    for (std::int64_t i = 0; i < of_.dims.per_key(); ++i)
      head(c, head_of(g, i), heads_[slot(chunk, i)], states_[slot(chunk, i)].data(), dstates_.data() + i * state_size());
    if (!of_.delta()) from_scores(c, dshared_.data());
    keys_.put_gradients(c, g, dq_.data(), dk_.data(), to_.dx);
  }
  void scores(const ChunkPlace& c, T* to) const {
    scan_.product.by_rows(c.count, c.count, of_.dims.key_dim, keys_.q.data(), keys_.k.data(), to);
  }
  // From the gradient of Q K^T.
  void from_scores(const ChunkPlace& c, const T* d) const {
    const std::int64_t n = c.count, narrow = of_.dims.key_dim;
    scan_.product(n, narrow, n, d, keys_.k.data(), dq_.data(), T{1}, true);
    scan_.product.by_columns(n, narrow, n, d, keys_.q.data(), dk_.data(), T{1}, true);
  }

  // `dstate`: of the state behind the chunk, on return of the state before it.
  void head(const ChunkPlace& c, std::int64_t number, const HeadChunk<T>& h, const T* state, T* dstate) {
    load(c, number);
    std::fill_n(g_.sums.data(), c.count, T{0});
    from_output(c, h, state);
    from_end(c, h, state, dstate);
    if (of_.delta()) from_delta(c, number, h, state);
    else from_values(c, number, h);
    std::copy_n(dstate_.data(), state_size(), dstate);
    put_scalars(c, number, h);
  }
  void load(const ChunkPlace& c, std::int64_t number) const {
    const std::int64_t wide = of_.dims.value_dim;
    for (std::int64_t i = 0; i < c.count; ++i)
      std::copy_n(to_.dy + (of_.row(c) + i) * of_.dims.values() + number * wide, wide, g_.dy.data() + i * wide);
  }

  // y = exp(G) Q S + (Q K^T * D) delta. With G[i] all of y[i] grows; what position j adds shrinks with G[j].
  void from_output(const ChunkPlace& c, const HeadChunk<T>& h, const T* state) {
    const std::int64_t n = c.count, wide = of_.dims.value_dim, narrow = of_.dims.key_dim;
    T *s = g_.scores.data(), *ds = g_.dscores.data();
    if (of_.delta()) scores(c, s);
    else std::copy_n(shared_.data(), n * n, s);
    scan_.give(c, keys_.q.data(), state, h, s, g_.y.data());
    scan_.product.by_rows(n, n, wide, g_.dy.data(), h.added.data(), ds);
    scan_.product.by_columns(n, wide, n, s, g_.dy.data(), g_.added.data());
    for (std::int64_t i = 0; i < n; ++i)
      g_.sums.data()[i] += dot(wide, g_.dy.data() + i * wide, g_.y.data() + i * wide) -
                           dot(wide, h.added.data() + i * wide, g_.added.data() + i * wide);
    each(n * n, [=, at = h.decays.data()](std::int64_t i) { ds[i] *= at[i]; });
    if (of_.delta()) from_scores(c, ds);
    else each(n * n, [=, sum = dshared_.data()](std::int64_t i) { sum[i] += ds[i]; });
    // dy is scaled in the place of y, which is not needed any more.
    scan_.scale_rows(n, wide, g_.dy.data(), wide, [&](std::int64_t i) { return exp_short(h.sums.data()[i]); }, g_.y.data());
    scan_.product.by_rows(n, narrow, wide, g_.y.data(), state, dq_.data(), T{1}, true);
    scan_.product.by_columns(narrow, wide, n, keys_.q.data(), g_.y.data(), dstate_.data());
  }
  // S' = exp(G[last]) S + (exp(G[last] - G) K)^T delta.
  void from_end(const ChunkPlace& c, const HeadChunk<T>& h, const T* state, const T* dend) {
    const std::int64_t n = c.count, wide = of_.dims.value_dim, narrow = of_.dims.key_dim, last = n - 1;
    const T factor = exp_short(h.sums.data()[last]);
    const T* const keys = scan_.to_end(c, keys_.k.data(), h);
    scan_.product.by_rows(n, narrow, wide, h.added.data(), dend, g_.end.data());
    scan_.product(n, wide, narrow, keys, dend, g_.added.data(), T{1}, true);
    T* const sums = g_.sums.data();
    sums[last] += factor * dot(state_size(), dend, state);
    for (std::int64_t j = 0; j < n; ++j) {
      const T* const d = g_.end.data() + j * narrow;
      const T along = dot(narrow, keys + j * narrow, d), decay = exp_short(h.sums.data()[last] - h.sums.data()[j]);
      sums[last] += along;
      sums[j] -= along;
      each(narrow, [=, to = dk_.data() + j * narrow](std::int64_t e) { to[e] += decay * d[e]; });
    }
    each(state_size(), [=, to = dstate_.data()](std::int64_t i) { to[i] += factor * dend[i]; });
  }

  // The values of a head at position i of the chunk, and their gradient's place.
  const T* value(const ChunkPlace& c, std::int64_t number, std::int64_t i) const {
    return of_.x + (of_.row(c) + i) * of_.dims.mixed() + of_.value_column(number);
  }
  T* value_gradient(const ChunkPlace& c, std::int64_t number, std::int64_t i) const {
    return to_.dx + (of_.row(c) + i) * of_.dims.mixed() + of_.value_column(number);
  }

  // delta = u v, and y's skip v.
  void from_values(const ChunkPlace& c, std::int64_t number, const HeadChunk<T>& h) {
    const std::int64_t wide = of_.dims.value_dim;
    T& skip = to_.part(of_.dims, c.sequence, 2)[number];
    for (std::int64_t i = 0; i < c.count; ++i) {
      const T *v = value(c, number, i), *d = g_.added.data() + i * wide, *dy = g_.dy.data() + i * wide;
      g_.amount.data()[i] = dot(wide, v, d);
      skip += dot(wide, v, dy);
      each(wide, [=, u = h.amount.data()[i], f = of_.skip[number], to = value_gradient(c, number, i)](std::int64_t e) {
        to[e] = u * d[e] + f * dy[e];
      });
    }
  }

  // delta = T (b V) - (T (b exp(G) K)) S.
  void from_delta(const ChunkPlace& c, std::int64_t number, const HeadChunk<T>& h, const T* state) {
    const std::int64_t n = c.count, wide = of_.dims.value_dim, narrow = of_.dims.key_dim;
    const T* const d = g_.added.data();
    scan_.product.by_rows(n, narrow, wide, d, state, g_.read.data(), T{-1});
    scan_.product.by_columns(narrow, wide, n, h.read.data(), d, dstate_.data(), T{-1}, true);
    scan_.product.by_rows(n, n, wide, d, h.values.data(), g_.inverse.data());
    scan_.product.by_rows(n, n, narrow, g_.read.data(), h.keys.data(), g_.inverse.data(), T{1}, true);
    scan_.product.by_columns(n, wide, n, h.inverse.data(), d, g_.values.data());
    scan_.product.by_columns(n, narrow, n, h.inverse.data(), g_.read.data(), g_.keys.data());
    std::fill_n(g_.amount.data(), n, T{0});
    for (std::int64_t i = 0; i < n; ++i) from_factors(c, number, h, i);
    from_inverse(n, h);
    const T* const pairs = g_.inverse.data();  // now of K K^T
    scan_.product(n, narrow, n, pairs, keys_.k.data(), dk_.data(), T{1}, true);
    scan_.product.by_columns(n, narrow, n, pairs, keys_.k.data(), dk_.data(), T{1}, true);
  }
  // Rows b[i] v[i] and b[i] exp(G[i]) k[i].
  void from_factors(const ChunkPlace& c, std::int64_t number, const HeadChunk<T>& h, std::int64_t i) {
    const std::int64_t wide = of_.dims.value_dim, narrow = of_.dims.key_dim;
    const T b = h.learn.data()[i], grown = exp_short(h.sums.data()[i]);
    const T *dv = g_.values.data() + i * wide, *dkey = g_.keys.data() + i * narrow, *k = keys_.k.data() + i * narrow;
    const T along = dot(narrow, k, dkey);
    g_.learn.data()[i] = dot(wide, value(c, number, i), dv) + grown * along;
    g_.sums.data()[i] += b * grown * along;
    each(wide, [=, to = value_gradient(c, number, i)](std::int64_t e) { to[e] = b * dv[e]; });
    each(narrow, [=, to = dk_.data() + i * narrow](std::int64_t e) { to[e] += b * grown * dkey[e]; });
  }
  // From the gradient of T = (I + A)^-1 to that of K K^T, in its place: dA = -T^T dT T^T below the diagonal, by two triangular
  // systems, X = T^T dT and dA = -X T^T. A[i,j] = b[i] P[i,j], P = D * K K^T.
  void from_inverse(std::int64_t n, const HeadChunk<T>& h) {
    T* const d = g_.inverse.data();
    const T *p = h.pairs.data(), *b = h.learn.data();
    for (std::int64_t i = n - 1; i >= 0; --i)
      for (std::int64_t k = i + 1; k < n; ++k)
        each(i, [=, a = b[k] * p[k * n + i], to = d + i * n, from = d + k * n](std::int64_t j) { to[j] -= a * from[j]; });
    for (std::int64_t i = 0; i < n; ++i) {
      T* const row = d + i * n;
      for (std::int64_t j = 0; j < i; ++j) row[j] -= b[j] * dot(j, row, p + j * n);
      from_pairs(n, i, h, row);
    }
  }
  // Row i of -dA becomes that of the gradient of K K^T.
  void from_pairs(std::int64_t n, std::int64_t i, const HeadChunk<T>& h, T* row) {
    const T *p = h.pairs.data() + i * n, *decays = h.decays.data() + i * n, b = h.learn.data()[i];
    T* const sums = g_.sums.data();
    const T sum = dot(i, row, p);
    g_.learn.data()[i] -= sum;
    sums[i] -= b * sum;
    each(i, [=](std::int64_t j) { sums[j] += b * p[j] * row[j]; });
    each(i, [=](std::int64_t j) { row[j] *= -b * decays[j]; });
    std::fill(row + i, row + n, T{0});
  }

  // From the gradients of G, u and b to those of scalars, decay and step.
  void put_scalars(const ChunkPlace& c, std::int64_t number, const HeadChunk<T>& h) const {
    const T rate = -std::exp(of_.decay[number]);
    T &decay = to_.part(of_.dims, c.sequence, 0)[number], &step = to_.part(of_.dims, c.sequence, 1)[number], later = 0;
    for (std::int64_t i = c.count; i-- > 0;) {
      const std::int64_t at = of_.scalar(of_.row(c) + i, number);
      later += g_.sums.data()[i];  // log-decay i is in the sums of all later positions
      decay += later * h.log_decay.data()[i];
      const T d = (g_.amount.data()[i] + rate * later) * Silu::sigmoid(of_.scalars[at] + of_.step[number]);
      to_.dscalars[at] = d;
      step += d;
      if (!of_.delta()) continue;
      const T b = h.learn.data()[i];
      to_.dscalars[at + 1] = g_.learn.data()[i] * b * (T{1} - b);
    }
  }

  const ScanOperands<T>& of_;
  const ScanGradients<T>& to_;
  const ChunkScan<T> scan_;
  ChunkKeys<T> keys_;
  HeadGradients<T> g_;
  ScratchArray<T> shared_, dshared_;  // scores of a group's heads, without decays
  ScratchArray<T> dq_, dk_, dstates_, dstate_;
  std::vector<ChunkPlace> places_;
  std::vector<HeadChunk<T>> heads_;
  std::vector<ScratchArray<T>> states_;
};

}  // namespace

template <class T>
void compute(const RecurrenceBackward& op, Call& call) {
  const RecurrenceDims& d = op.dims;
  const ScanOperands<T> of(d, call, 1);
  std::vector<T> parts(static_cast<std::size_t>(d.batch * 3 * d.heads), T{0});
  const ScanGradients<T> to{call.in<T>(0), call.out<T>(0), call.out<T>(1), parts.data()};
  const std::int64_t grain = call.team().grain(d.seq * d.per_key() * d.value_dim);
  call.team().split(d.batch * d.key_heads, grain, [&](std::int64_t first, std::int64_t end) {
    BackwardScan<T> scan(of, to, call);
    for (std::int64_t i = first; i < end; ++i) scan.run(i / d.key_heads, i % d.key_heads);
  });
  for (std::int64_t vector = 0; vector < (of.delta() ? 2 : 3); ++vector)
    for (std::int64_t h = 0; h < d.heads; ++h) {
      T sum = 0;
      for (std::int64_t s = 0; s < d.batch; ++s) sum += to.part(d, s, vector)[h];
      call.out<T>(2 + static_cast<std::size_t>(vector))[h] = sum;
    }
}

TANDEM_KERNEL(RecurrenceBackward);

}  // namespace tandem::exec::cpu
