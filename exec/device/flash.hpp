#pragma once
// Attention without stored scores (Dao et al., arXiv 2205.14135). Tiles of 16 queries by 16 keys are in shared memory. Sums have a
// fixed order. Grouped queries, ALiBi and dropout masks by global index work as in the CPU's kernel.

#include <cmath>

#include "exec/device/softmax.hpp"
#include "exec/shared/soft_cap.hpp"

namespace tandem::exec::device {

inline constexpr std::int64_t kTile = 16;

/// A head's columns of an operand. Row r of a sequence starts at first + (sequence * rows + r) * stride. Rows of several context
/// ranks are ordered (context rank, sequence, position).
struct HeadColumns {
  std::int64_t first = 0, stride = 0, rows = 0, batch = 0;
  SequenceMap shards{1, 0};

  TANDEM_HD std::int64_t at(std::int64_t sequence, std::int64_t row) const {
    if (shards.context_size == 1) return first + (sequence * rows + row) * stride;
    const SequenceMap::Place place = shards.place(row);
    return first + ((place.rank * batch + sequence) * shards.local_seq + place.index) * stride;
  }
};

/// Layout of an attention's heads in its operands.
struct HeadLayout {
  std::int64_t head_dim, value_dim, per_group;  ///< per_group: query heads per key head
  std::int64_t q_width, kv_width;
  std::int64_t seq, keys;
  bool q_packed, kv_packed;
  std::int64_t heads;
  std::int64_t batch = 0;
  SequenceMap query_shards{1, 0}, key_shards{1, 0};  ///< order of rows from several context ranks

  TANDEM_HD HeadColumns query(std::int64_t head) const {
    const std::int64_t group = q_packed ? per_group * head_dim + head_dim + value_dim : per_group * head_dim;
    return {head / per_group * group + head % per_group * head_dim, q_width, seq, batch, query_shards};
  }
  /// part 0: keys, 1: values.
  TANDEM_HD HeadColumns key(std::int64_t group, std::int64_t part) const {
    const std::int64_t queries = kv_packed ? per_group * head_dim : 0;
    return {group * (queries + head_dim + value_dim) + queries + part * head_dim, kv_width, keys, batch, key_shards};
  }
  TANDEM_HD HeadColumns context(std::int64_t head) const {
    return {head * value_dim, heads * value_dim, seq, batch, query_shards};
  }
};

/// Loads a tile of rows [kTile, dim] into shared memory. Rows beyond the last one are zero.
template <class S, class Block>
TANDEM_HD inline void load_tile(Block& block, const Typed& from, const HeadColumns& at, std::int64_t sequence, std::int64_t first,
                                std::int64_t dim, typename S::Number* to) {
  using A = typename S::Number;
  block.each(kTile * dim, [&](std::int64_t i) {
    const std::int64_t row = first + i / dim;
    to[i] = row < at.rows ? S::get(from, at.at(sequence, row) + i % dim) : A{0};
  });
}

template <class A>
TANDEM_HD inline A dot(const A* a, const A* b, std::int64_t n) {
  A sum = A{0};
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// Score of a visible pair. If `slope` is not null, it receives the derivative of the soft cap.
template <class A>
TANDEM_HD inline A pair_score(const AttentionPlace& p, A product, std::int64_t head, std::int64_t query, std::int64_t key,
                              A* slope = nullptr) {
  A score = static_cast<A>(p.scale) * product;
  if (p.soft_cap > 0) {
    const SoftCapOf<A> cap{static_cast<A>(p.soft_cap)};
    score = cap.value(score);
    if (slope != nullptr) *slope = cap.slope(score);
  }
  return score + p.slope<A>(head) * p.distance<A>(query, key);
}

/// Shared memory in bytes. `columns`: sum over all tiles.
inline std::size_t tile_bytes(Form form, std::int64_t columns, std::int64_t numbers) {
  return static_cast<std::size_t>(kTile * columns + numbers) * (form == Form::doubles ? sizeof(double) : sizeof(float));
}

/// Combines attention over two sets of keys for a query, from the log-sum-exp of each set.
template <class A>
struct Joined {
  A most, old, added;

  TANDEM_HD Joined(A before, A here)
      : most(here > before ? here : before), old(std::exp(before - most)), added(std::exp(here - most)) {}
  TANDEM_HD A mix(A before, A here) const { return (before * old + here * added) / (old + added); }
  TANDEM_HD A stat() const { return most + std::log(old + added); }
};

/// One block per tile of queries of a head.
struct FlashKernel {
  Form form;
  Typed q, kv, context, stats;
  AttentionPlace place;
  HeadLayout layout;
  Typed sinks;
  std::int64_t first_sink = 0;  ///< the sink of head 0
  bool merges = false;          ///< merge with the context and stats of other keys
  std::byte* scratch = nullptr;    ///< ring_scratch bytes of scratch memory for a library that merges

  std::int64_t tiles() const { return (place.seq + kTile - 1) / kTile; }
  Grid grid() const { return {place.batch * place.heads * tiles(), bytes(form, layout.head_dim, layout.value_dim)}; }
  static std::size_t bytes(Form form, std::int64_t dim, std::int64_t wide) {
    return tile_bytes(form, 2 * dim + 2 * wide, kForwardNumbers);
  }
  static constexpr std::int64_t kForwardNumbers = kTile * kTile + 3 * kTile;
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t dim = layout.head_dim, wide = layout.value_dim, all = (place.seq + kTile - 1) / kTile;
    const std::int64_t first = block.index() % all * kTile, head = block.index() / all % place.heads;
    const std::int64_t sequence = block.index() / all / place.heads;
    A* queries = reinterpret_cast<A*>(block.shared());
    A *keys = queries + kTile * dim, *values = keys + kTile * dim, *sum = values + kTile * wide, *p = sum + kTile * wide;
    A *top = p + kTile * kTile, *total = top + kTile, *shrink = total + kTile;
    const A none = -std::numeric_limits<A>::infinity();
    load_tile<S>(block, q, layout.query(head), sequence, first, dim, queries);
    block.each(kTile * wide, [&](std::int64_t i) { sum[i] = A{0}; });
    block.each(kTile, [&](std::int64_t i) {
      top[i] = sinks.here() ? load<A>(sinks, first_sink + head) : none;
      total[i] = sinks.here() ? A{1} : A{0};
    });
    const std::int64_t last = first + kTile < place.seq ? first + kTile : place.seq, seen = place.visible(last - 1);
    for (std::int64_t key = place.first(sequence, first) / kTile * kTile; key < seen; key += kTile) {
      load_tile<S>(block, kv, layout.key(head / layout.per_group, 0), sequence, key, dim, keys);
      load_tile<S>(block, kv, layout.key(head / layout.per_group, 1), sequence, key, wide, values);
      block.each(kTile * kTile, [&](std::int64_t at) {
        const std::int64_t i = at / kTile, k = at % kTile;
        const bool sees = first + i < place.seq && place.sees(sequence, first + i, key + k);
        p[at] = sees ? pair_score(place, dot(queries + i * dim, keys + k * dim, dim), head, first + i, key + k) : none;
      });
      block.each(kTile, [&](std::int64_t i) {
        A most = top[i];
        for (std::int64_t k = 0; k < kTile; ++k) most = p[i * kTile + k] > most ? p[i * kTile + k] : most;
        shrink[i] = top[i] == none ? A{0} : exp_saturating(top[i] - most);
        A added = A{0};
        for (std::int64_t k = 0; k < kTile; ++k) {
          const A e = p[i * kTile + k] == none ? A{0} : exp_saturating(p[i * kTile + k] - most);
          added += e;
          p[i * kTile + k] = e == A{0} ? e : e * place.mask<A>(sequence, head, first + i, key + k);
        }
        total[i] = total[i] * shrink[i] + added;
        top[i] = most;
      });
      block.each(kTile * wide, [&](std::int64_t at) {
        const std::int64_t i = at / wide, d = at % wide;
        A mixed = sum[at] * shrink[i];
        for (std::int64_t k = 0; k < kTile; ++k) mixed += p[i * kTile + k] * values[k * wide + d];
        sum[at] = mixed;
      });
    }
    const HeadColumns to = layout.context(head);
    const Tile tile{sequence, head, first};
    block.each(kTile, [&](std::int64_t i) { top[i] += std::log(total[i]); });
    if (merges) return merge<S>(block, tile, sum, total, top);
    block.each(kTile * wide, [&](std::int64_t at) {
      const std::int64_t i = at / wide, query = first + i;
      if (query < place.seq) S::put(context, to.at(sequence, query) + at % wide, total[i] > A{0} ? sum[at] / total[i] : A{0});
    });
    block.each(kTile, [&](std::int64_t i) {
      if (first + i < place.seq) store(stats, statistic(tile, i), top[i]);
    });
  }

 private:
  struct Tile {
    std::int64_t sequence, head, first;
  };
  TANDEM_HD std::int64_t statistic(const Tile& tile, std::int64_t i) const {
    return (tile.sequence * place.heads + tile.head) * place.seq + tile.first + i;
  }
  /// Merges a tile: `mixed` are unnormalised values, `total` their sums of exponentials, `here` the log-sum-exp. Queries that see
  /// none of these keys stay unchanged.
  template <class S, class Block, class A>
  TANDEM_HD void merge(Block& block, const Tile& tile, const A* mixed, const A* total, const A* here) const {
    const std::int64_t wide = layout.value_dim;
    const HeadColumns to = layout.context(tile.head);
    const auto sees = [&](std::int64_t i) { return tile.first + i < place.seq && total[i] > A{0}; };
    block.each(kTile * wide, [&](std::int64_t at) {
      const std::int64_t i = at / wide;
      if (!sees(i)) return;
      const std::int64_t cell = to.at(tile.sequence, tile.first + i) + at % wide;
      const Joined<A> both(load<A>(stats, statistic(tile, i)), here[i]);
      S::put(context, cell, both.mix(S::get(context, cell), mixed[at] / total[i]));
    });
    block.each(kTile, [&](std::int64_t i) {
      if (sees(i)) store(stats, statistic(tile, i), Joined<A>(load<A>(stats, statistic(tile, i)), here[i]).stat());
    });
  }
};

/// Operands of the backward pass.
struct FlashGradOperands {
  Typed dcontext, q, kv, context, stats, dq, dkv;
};

/// For a tile of pairs: p = exp(score - stat), ds = p (mask dp - sum of context dcontext), pm = mask p; 0 for invisible pairs.
template <class A>
struct PairTile {
  A *queries, *dcontext, *keys, *values, *p, *ds, *stat, *total;

  /// `shared` has memory for 4 tiles and kPairNumbers numbers.
  TANDEM_HD PairTile(A* shared, std::int64_t dim, std::int64_t wide)
      : queries(shared), dcontext(queries + kTile * dim), keys(dcontext + kTile * wide), values(keys + kTile * dim),
        p(values + kTile * wide), ds(p + kTile * kTile), stat(ds + kTile * kTile), total(stat + kTile) {}
};
inline constexpr std::int64_t kPairNumbers = 2 * kTile * kTile + 2 * kTile;

template <class S, class Block>
TANDEM_HD inline void load_queries(Block& block, const FlashGradOperands& at, const AttentionPlace& place, const HeadLayout& layout,
                                   const ScoreRow& tile, const PairTile<typename S::Number>& t) {
  using A = typename S::Number;
  const std::int64_t wide = layout.value_dim;
  load_tile<S>(block, at.q, layout.query(tile.head), tile.sequence, tile.query, layout.head_dim, t.queries);
  load_tile<S>(block, at.dcontext, layout.context(tile.head), tile.sequence, tile.query, wide, t.dcontext);
  block.each(kTile, [&](std::int64_t i) {
    const std::int64_t query = tile.query + i;
    A sum = A{0};
    const std::int64_t row = layout.context(tile.head).at(tile.sequence, query);
    for (std::int64_t d = 0; query < place.seq && d < wide; ++d) sum += S::get(at.context, row + d) * t.dcontext[i * wide + d];
    t.total[i] = sum;
    t.stat[i] = query < place.seq ? load<A>(at.stats, (tile.sequence * place.heads + tile.head) * place.seq + query) : A{0};
  });
}

template <class A, class Block>
TANDEM_HD inline void fill_pairs(Block& block, const AttentionPlace& place, const HeadLayout& layout, const ScoreRow& tile,
                                 std::int64_t key, const PairTile<A>& t) {
  const std::int64_t dim = layout.head_dim, wide = layout.value_dim;
  block.each(kTile * kTile, [&](std::int64_t at) {
    const std::int64_t i = at / kTile, k = at % kTile, query = tile.query + i;
    t.p[at] = t.ds[at] = A{0};
    if (query >= place.seq || !place.sees(tile.sequence, query, key + k)) return;
    A slope = A{1};
    const A score = pair_score(place, dot(t.queries + i * dim, t.keys + k * dim, dim), tile.head, query, key + k, &slope);
    const A p = exp_saturating(score - t.stat[i]), mask = place.mask<A>(tile.sequence, tile.head, query, key + k);
    t.p[at] = mask * p;
    t.ds[at] = slope * (p * (mask * dot(t.dcontext + i * wide, t.values + k * wide, wide) - t.total[i]));
  });
}

/// Computes dq. One block per tile of queries of a head.
struct FlashQueryGradKernel {
  Form form;
  FlashGradOperands at;
  AttentionPlace place;
  HeadLayout layout;
  bool adds = false;  ///< add to the gradients from other keys

  std::int64_t tiles() const { return (place.seq + kTile - 1) / kTile; }
  Grid grid() const {
    return {place.batch * place.heads * tiles(), tile_bytes(form, 3 * layout.head_dim + 2 * layout.value_dim, kPairNumbers)};
  }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t dim = layout.head_dim, wide = layout.value_dim;
    const std::int64_t all = (place.seq + kTile - 1) / kTile, first = block.index() % all * kTile;
    const ScoreRow tile(place, block.index() / all * place.seq + first);
    A* sum = reinterpret_cast<A*>(block.shared());
    const PairTile<A> t(sum + kTile * dim, dim, wide);
    block.each(kTile * dim, [&](std::int64_t i) { sum[i] = A{0}; });
    load_queries<S>(block, at, place, layout, tile, t);
    const std::int64_t last = first + kTile < place.seq ? first + kTile : place.seq, seen = place.visible(last - 1);
    const std::int64_t group = tile.head / layout.per_group;
    for (std::int64_t key = place.first(tile.sequence, first) / kTile * kTile; key < seen; key += kTile) {
      load_tile<S>(block, at.kv, layout.key(group, 0), tile.sequence, key, dim, t.keys);
      load_tile<S>(block, at.kv, layout.key(group, 1), tile.sequence, key, wide, t.values);
      fill_pairs(block, place, layout, tile, key, t);
      block.each(kTile * dim, [&](std::int64_t e) {
        A added = A{0};
        for (std::int64_t k = 0; k < kTile; ++k) added += t.ds[e / dim * kTile + k] * t.keys[k * dim + e % dim];
        sum[e] += added;
      });
    }
    const A scale = static_cast<A>(place.scale);
    const HeadColumns to = layout.query(tile.head);
    block.each(kTile * dim, [&](std::int64_t e) {
      const std::int64_t query = first + e / dim;
      if (query >= place.seq) return;
      const std::int64_t cell = to.at(tile.sequence, query) + e % dim;
      S::put(at.dq, cell, adds ? S::get(at.dq, cell) + scale * sum[e] : scale * sum[e]);
    });
  }
};

/// Computes dk and dv. One block per tile of keys of a group, whose query heads are processed in turn.
struct FlashKeyGradKernel {
  Form form;
  FlashGradOperands at;
  AttentionPlace place;
  HeadLayout layout;
  bool adds = false;  ///< add to the gradients from other queries

  std::int64_t groups() const { return place.heads / layout.per_group; }
  std::int64_t tiles() const { return (place.keys + kTile - 1) / kTile; }
  Grid grid() const { return {place.batch * groups() * tiles(), bytes(form, layout.head_dim, layout.value_dim)}; }
  static std::size_t bytes(Form form, std::int64_t dim, std::int64_t wide) {
    return tile_bytes(form, 3 * dim + 3 * wide, kPairNumbers);
  }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t dim = layout.head_dim, wide = layout.value_dim;
    const std::int64_t all = (place.keys + kTile - 1) / kTile, first = block.index() % all * kTile;
    const std::int64_t heads = place.heads / layout.per_group, group = block.index() / all % heads;
    const std::int64_t sequence = block.index() / all / heads;
    A* dkeys = reinterpret_cast<A*>(block.shared());
    A* dvalues = dkeys + kTile * dim;
    const PairTile<A> t(dvalues + kTile * wide, dim, wide);
    block.each(kTile * (dim + wide), [&](std::int64_t i) { dkeys[i] = A{0}; });
    load_tile<S>(block, at.kv, layout.key(group, 0), sequence, first, dim, t.keys);
    load_tile<S>(block, at.kv, layout.key(group, 1), sequence, first, wide, t.values);
    for (std::int64_t h = group * layout.per_group; h < (group + 1) * layout.per_group; ++h)
      for (std::int64_t query = 0; query < place.seq; query += kTile) {
        const std::int64_t last = query + kTile < place.seq ? query + kTile - 1 : place.seq - 1;
        if (place.visible(last) <= first || place.first(sequence, query) >= first + kTile) continue;
        const ScoreRow tile(place, (sequence * place.heads + h) * place.seq + query);
        load_queries<S>(block, at, place, layout, tile, t);
        fill_pairs(block, place, layout, tile, first, t);
        add_by_key(block, t.ds, t.queries, dim, dkeys);
        add_by_key(block, t.p, t.dcontext, wide, dvalues);
      }
    const A scale = static_cast<A>(place.scale);
    const HeadColumns to_key = layout.key(group, 0), to_value = layout.key(group, 1);
    block.each(kTile * dim, [&](std::int64_t e) {
      const std::int64_t key = first + e / dim;
      if (key < place.keys) put<S>(to_key.at(sequence, key) + e % dim, scale * dkeys[e]);
    });
    block.each(kTile * wide, [&](std::int64_t e) {
      const std::int64_t key = first + e / wide;
      if (key < place.keys) put<S>(to_value.at(sequence, key) + e % wide, dvalues[e]);
    });
  }

 private:
  template <class S, class A>
  TANDEM_HD void put(std::int64_t cell, A value) const {
    S::put(at.dkv, cell, adds ? S::get(at.dkv, cell) + value : value);
  }
  /// sum[key] += pairs[query, key] * rows[query], for rows of `cols` columns.
  template <class A, class Block>
  TANDEM_HD static void add_by_key(Block& block, const A* pairs, const A* rows, std::int64_t cols, A* sum) {
    block.each(kTile * cols, [&](std::int64_t e) {
      const std::int64_t k = e / cols, d = e % cols;
      A added = A{0};
      for (std::int64_t i = 0; i < kTile; ++i) added += pairs[i * kTile + k] * rows[i * cols + d];
      sum[e] += added;
    });
  }
};

/// Computes dsinks, one block per sink of the tensor rank. A sink has probability exp(sink
/// - stat) and no value. If another context rank has its head, its gradient here is 0.
struct SinkGradKernel {
  Form form;
  Typed dcontext, context, stats, sinks, dsinks;
  AttentionPlace place;
  HeadLayout layout;
  std::int64_t first_sink, all_sinks;

  Grid grid() const { return {all_sinks}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t head = block.index() - first_sink;
    if (head < 0 || head >= place.heads) {
      block.each(1, [&](std::int64_t) { store(dsinks, block.index(), A{0}); });
      return;
    }
    const A sink = load<A>(sinks, block.index());
    const A sum = block.template sum<A>(place.batch * place.seq, [&](std::int64_t i) {
      const std::int64_t sequence = i / place.seq, query = i % place.seq, row = layout.context(head).at(sequence, query);
      A total = A{0};
      for (std::int64_t d = 0; d < layout.value_dim; ++d) total += S::get(context, row + d) * S::get(dcontext, row + d);
      return std::exp(sink - load<A>(stats, (sequence * place.heads + head) * place.seq + query)) * total;
    });
    block.each(1, [&](std::int64_t) { store(dsinks, block.index(), -sum); });
  }
};

}  // namespace tandem::exec::device
