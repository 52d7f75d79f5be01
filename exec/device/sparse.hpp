#pragma once
// Sparse attention to chosen keys, and the indexer that chooses them (exec/cpu/sparse). One block per query, head of a query, or
// key; one warp per pair. Sums have a fixed order.

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "exec/backend/step_table.hpp"
#include "exec/device/chunk.hpp"
#include "exec/device/typed.hpp"
#include "exec/shared/vector_math.hpp"

namespace tandem::exec::device {

inline constexpr int kPairTeam = 32, kPairPieces = 24;
inline constexpr std::int64_t kPairOnce = std::int64_t{kPairTeam} * kPairPieces;    ///< dimensions multiplied at a time
inline constexpr std::int64_t kPairsAtOnce = 256;                                   ///< pairs added to a key's gradient at a time

/// Dot product of two rows.
template <class S, class Team>
TANDEM_HD inline typename S::Number pair_dot(const Team& team, const Typed& a, std::int64_t at, const Typed& b, std::int64_t bt,
                                             std::int64_t n) {
  using A = typename S::Number;
  const auto part = [&](std::int64_t first) {
    const std::int64_t rest = n - first < kPairOnce ? n - first : kPairOnce;
    return team.template sum<A, kPairPieces>(
        rest, A{0}, [&](Slot s) { return S::get(a, at + first + s.i) * S::get(b, bt + first + s.i); });
  };
  A total = part(0);
  for (std::int64_t first = kPairOnce; first < n; first += kPairOnce) total += part(first);
  return total;
}

/// Order of a sequence's keys: by position, or context rank after context rank (SequenceMap).
struct KeyOrder {
  std::int64_t batch, keys, shards;

  TANDEM_HD std::int64_t local() const { return keys / shards; }
  /// Index of a position among the sequence's keys, which are ordered rank after rank.
  TANDEM_HD std::int64_t column(std::int64_t position) const {
    if (shards == 1) return position;
    const std::int64_t piece = local() / 2, number = position / piece, within = position % piece;
    return number < shards ? number * local() + within : (2 * shards - 1 - number) * local() + piece + within;
  }
  TANDEM_HD std::int64_t row(std::int64_t sequence, std::int64_t position) const {
    const std::int64_t at = column(position);
    return (at / local() * batch + sequence) * local() + at % local();
  }
};

/// Each query's list of chosen keys: positions, ascending, then -1.
struct KeyLists {
  const std::int32_t* chosen;
  std::int64_t listed;

  TANDEM_HD const std::int32_t* of(std::int64_t row) const { return chosen + row * listed; }
  TANDEM_HD std::int64_t length(std::int64_t row) const {
    std::int64_t low = 0, high = listed;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (of(row)[middle] >= 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
  /// Index of a key in a list; -1 if it is not in it.
  TANDEM_HD std::int64_t find(std::int64_t row, std::int64_t key) const {
    const std::int64_t n = length(row);
    std::int64_t low = 0, high = n;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (of(row)[middle] < key) low = middle + 1;
      else high = middle;
    }
    return low < n && of(row)[low] == key ? low : -1;
  }
};

/// Layout of heads in an attention's operands.
struct ChosenLayout {
  std::int64_t heads, seq, per_group, head_dim, value_dim;  ///< per_group: query heads per key head
  std::int64_t q_width, q_group;                            ///< columns per token, and per group
  std::int64_t kv_width, kv_group, kv_first;                ///< kv_first: columns before the first key
  KeyOrder keys;
  double score_scale;

  TANDEM_HD std::int64_t groups() const { return heads / per_group; }
  TANDEM_HD std::int64_t query(std::int64_t row, std::int64_t head) const {
    return row * q_width + head / per_group * q_group + head % per_group * head_dim;
  }
  TANDEM_HD std::int64_t key(std::int64_t sequence, std::int64_t position, std::int64_t group) const {
    return keys.row(sequence, position) * kv_width + kv_first + group * kv_group;
  }
  TANDEM_HD std::int64_t value(std::int64_t sequence, std::int64_t position, std::int64_t group) const {
    return key(sequence, position, group) + head_dim;
  }
  TANDEM_HD std::int64_t context(std::int64_t row, std::int64_t head) const { return (row * heads + head) * value_dim; }
  TANDEM_HD std::int64_t statistic(std::int64_t row, std::int64_t head) const {
    return (row / seq * heads + head) * seq + row % seq;
  }
  template <class A>
  TANDEM_HD A scale() const {
    return static_cast<A>(score_scale);
  }
};

inline std::size_t numbers_bytes(Form form, std::int64_t numbers) {
  return static_cast<std::size_t>(numbers) * (form == Form::doubles ? sizeof(double) : sizeof(float));
}

/// FlashAttention to chosen keys. One block per query of a head.
struct ChosenAttentionKernel {
  Form form;
  Typed q, kv, context, stats;
  KeyLists lists;
  ChosenLayout at;
  std::int64_t flops;

  Grid grid() const { return {at.keys.batch * at.seq * at.heads, numbers_bytes(form, lists.listed)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    A* p = reinterpret_cast<A*>(block.shared());
    const std::int64_t row = block.index() / at.heads, head = block.index() % at.heads, group = head / at.per_group;
    const std::int64_t sequence = row / at.seq, n = lists.length(row), query = at.query(row, head);
    const std::int32_t* list = lists.of(row);
    const A scale = at.scale<A>();
    block.template teams<kPairTeam>(0, n, [&](const auto& team, std::int64_t j) {
      const A score = scale * pair_dot<S>(team, q, query, kv, at.key(sequence, list[j], group), at.head_dim);
      team.one([&] { p[j] = score; });
    });
    const A top = block.template max<A>(n, -std::numeric_limits<A>::infinity(), [&](std::int64_t j) { return p[j]; });
    block.each(n, [&](std::int64_t j) { p[j] = exp_saturating(p[j] - top); });
    const A sum = block.template sum<A>(n, [&](std::int64_t j) { return p[j]; });
    block.each(at.value_dim, [&](std::int64_t d) {
      A mixed = A{0};
      for (std::int64_t j = 0; j < n; ++j) mixed += p[j] * S::get(kv, at.value(sequence, list[j], group) + d);
      S::put(context, at.context(row, head) + d, mixed / sum);
    });
    block.each(1, [&](std::int64_t) { store(stats, at.statistic(row, head), top + std::log(sum)); });
  }
};

/// Operands of the backward pass, and the values of a (query, key) pair.
struct ChosenPairs {
  Typed dcontext, q, kv, context, stats;
  KeyLists lists;
  ChosenLayout at;

  template <class A>
  struct Pair {
    A p, ds;
  };
  /// p = exp(score - stat), ds = scale p (dp - context dcontext).
  template <class S, class Team>
  TANDEM_HD Pair<typename S::Number> of(const Team& team, std::int64_t row, std::int64_t head, std::int64_t position,
                                        typename S::Number total) const {
    using A = typename S::Number;
    const std::int64_t sequence = row / at.seq, group = head / at.per_group;
    const A scale = at.scale<A>();
    const A score = scale * pair_dot<S>(team, q, at.query(row, head), kv, at.key(sequence, position, group), at.head_dim);
    const A dp = pair_dot<S>(team, dcontext, at.context(row, head), kv, at.value(sequence, position, group), at.value_dim);
    const A p = exp_saturating(score - load<A>(stats, at.statistic(row, head)));
    return {p, scale * p * (dp - total)};
  }
  template <class S, class Team>
  TANDEM_HD typename S::Number total(const Team& team, std::int64_t row, std::int64_t head) const {
    return pair_dot<S>(team, context, at.context(row, head), dcontext, at.context(row, head), at.value_dim);
  }
};

/// Computes dq. One block per query of a head.
struct ChosenQueryGradKernel {
  Form form;
  ChosenPairs pairs;
  Typed dq;
  std::int64_t flops;  ///< of the whole gradient

  Grid grid() const {
    return {pairs.at.keys.batch * pairs.at.seq * pairs.at.heads, numbers_bytes(form, pairs.lists.listed)};
  }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    A* ds = reinterpret_cast<A*>(block.shared());
    const ChosenLayout& at = pairs.at;
    const std::int64_t row = block.index() / at.heads, head = block.index() % at.heads, n = pairs.lists.length(row);
    const std::int64_t sequence = row / at.seq, group = head / at.per_group;
    const std::int32_t* list = pairs.lists.of(row);
    block.template teams<kPairTeam>(0, n, [&](const auto& team, std::int64_t j) {
      const A slope = pairs.of<S>(team, row, head, list[j], pairs.total<S>(team, row, head)).ds;
      team.one([&] { ds[j] = slope; });
    });
    block.each(at.head_dim, [&](std::int64_t d) {
      A sum = A{0};
      for (std::int64_t j = 0; j < n; ++j) sum += ds[j] * S::get(pairs.kv, at.key(sequence, list[j], group) + d);
      S::put(dq, at.query(row, head) + d, sum);
    });
  }
};

/// Calls body(queries, count) for the queries of `sequence` that chose `key`, ascending. `found` has space for kPairsAtOnce.
template <class Block, class F>
TANDEM_HD inline void each_chooser(Block& block, const KeyLists& lists, std::int64_t sequence, std::int64_t seq, std::int64_t key,
                                   std::int32_t* found, F body) {
  for (std::int64_t first = 0; first < seq; first += kPairsAtOnce) {
    const std::int64_t rest = seq - first, n = rest < kPairsAtOnce ? rest : kPairsAtOnce, row = sequence * seq + first;
    const std::int64_t count = block.select(n, found, [&](std::int64_t i) { return lists.find(row + i, key) >= 0; });
    if (count > 0) body(row, count);
  }
}

/// Computes dk and dv. One block per key of a group.
struct ChosenKeyGradKernel {
  Form form;
  ChosenPairs pairs;
  Typed dkv;

  Grid grid() const {
    const ChosenLayout& at = pairs.at;
    return {at.keys.batch * at.keys.keys * at.groups(),
            numbers_bytes(form, at.head_dim + at.value_dim + 2 * kPairsAtOnce) + kPairsAtOnce * sizeof(std::int32_t)};
  }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const ChosenLayout& at = pairs.at;
    const std::int64_t group = block.index() % at.groups(), position = block.index() / at.groups() % at.keys.keys;
    const std::int64_t sequence = block.index() / at.groups() / at.keys.keys, dim = at.head_dim, all = dim + at.value_dim;
    A* sums = reinterpret_cast<A*>(block.shared());
    A *p = sums + all, *ds = p + kPairsAtOnce;
    auto* found = reinterpret_cast<std::int32_t*>(ds + kPairsAtOnce);
    block.each(all, [&](std::int64_t c) { sums[c] = A{0}; });
    each_chooser(block, pairs.lists, sequence, at.seq, position, found, [&](std::int64_t row, std::int64_t count) {
      const std::int64_t items = count * at.per_group;
      const auto query_of = [&](std::int64_t item) { return row + found[item / at.per_group]; };
      const auto head_of = [&](std::int64_t item) { return group * at.per_group + item % at.per_group; };
      for (std::int64_t first = 0; first < items; first += kPairsAtOnce) {
        const std::int64_t end = first + kPairsAtOnce < items ? first + kPairsAtOnce : items;
        block.template teams<kPairTeam>(first, end, [&](const auto& team, std::int64_t item) {
          const std::int64_t query = query_of(item), head = head_of(item);
          const auto pair = pairs.of<S>(team, query, head, position, pairs.total<S>(team, query, head));
          team.one([&] { p[item - first] = pair.p, ds[item - first] = pair.ds; });
        });
        block.each(all, [&](std::int64_t c) {
          A sum = sums[c];
          for (std::int64_t item = first; item < end; ++item)
            sum += c < dim ? ds[item - first] * S::get(pairs.q, at.query(query_of(item), head_of(item)) + c)
                           : p[item - first] * S::get(pairs.dcontext, at.context(query_of(item), head_of(item)) + c - dim);
          sums[c] = sum;
        });
      }
    });
    const std::int64_t key = at.key(sequence, position, group);  // followed by its value
    block.each(all, [&](std::int64_t c) { S::put(dkv, key + c, sums[c]); });
  }
};

/// IndexTarget. One block per query.
struct IndexTargetKernel {
  Form form;
  Typed q, kv, stats, target;
  KeyLists lists;
  ChosenLayout at;
  std::int64_t flops;

  Grid grid() const { return {at.keys.batch * at.seq}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t row = block.index(), n = lists.length(row), sequence = row / at.seq;
    const std::int32_t* list = lists.of(row);
    const A scale = at.scale<A>();
    block.template teams<kPairTeam>(0, lists.listed, [&](const auto& team, std::int64_t j) {
      A sum = A{0};
      for (std::int64_t h = 0; j < n && h < at.heads; ++h) {
        const std::int64_t key = at.key(sequence, list[j], h / at.per_group);
        const A score = scale * pair_dot<S>(team, q, at.query(row, h), kv, key, at.head_dim);
        sum += exp_saturating(score - load<A>(stats, at.statistic(row, h)));
      }
      team.one([&] { S::put(target, row * lists.listed + j, sum); });
    });
  }
};

/// Maps a floating-point number to an unsigned integer of the same order; NaN becomes the lowest.
template <class A>
TANDEM_HD inline auto ordered(A x) {
  using U = std::conditional_t<sizeof(A) == sizeof(double), std::uint64_t, std::uint32_t>;
  constexpr U kSign = U{1} << (8 * sizeof(U) - 1);
  if (std::isnan(x)) x = -std::numeric_limits<A>::infinity();
  const U bits = std::bit_cast<U>(x == A{0} ? A{0} : x);
  return (bits & kSign) != 0 ? static_cast<U>(~bits) : static_cast<U>(bits | kSign);
}

/// IndexTopK for some queries of a sequence, from their products with all keys. One block per query. Finds the bits of the last
/// chosen score eight at a time, from the highest.
struct ChooseKeysKernel {
  Form form;
  Typed products, w;     ///< products[query, head, `width` keys in stored order]
  Typed scores;          ///< scratch for [query, keys]
  std::int32_t *ties, *chosen;  ///< ties: scratch for [query, keys]
  KeyOrder keys;
  std::int64_t heads, listed, width;
  std::int64_t first_row, queries;                   ///< index of these queries among all rows
  std::int64_t first_query, own, shards, rank;       ///< first_query: within this rank's `own` queries of the sequence

  static constexpr std::int64_t kDigits = 256;
  Grid grid() const { return {queries, (kDigits + 2) * sizeof(std::int64_t)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t mine = block.index(), row = first_row + mine, n = visible(first_query + mine);
    std::int32_t* to = chosen + row * listed;
    if (n <= listed) return block.each(listed, [&](std::int64_t j) { to[j] = j < n ? static_cast<std::int32_t>(j) : -1; });
    A* score = as<A>(scores) + mine * keys.keys;
    block.each(n, [&](std::int64_t k) {
      const std::int64_t column = keys.column(k);
      A sum = A{0};
      for (std::int64_t h = 0; h < heads; ++h) {
        const A p = load<A>(products, (mine * heads + h) * width + column);
        sum += load<A>(w, row * heads + h) * (p > A{0} ? p : A{0});
      }
      score[k] = sum;
    });
    choose(block, score, n, ties + mine * keys.keys, to);
  }

 private:
  /// Number of keys up to a query's position.
  TANDEM_HD std::int64_t visible(std::int64_t query) const {
    if (shards == 1) return query + 1;
    const std::int64_t piece = own / 2;
    return 1 + (query < piece ? rank * piece + query : (2 * shards - 1 - rank) * piece + query - piece);
  }
  template <class A, class Block>
  TANDEM_HD void choose(Block& block, const A* score, std::int64_t n, std::int32_t* equal, std::int32_t* to) const {
    using U = decltype(ordered(A{0}));
    auto* counts = reinterpret_cast<std::int64_t*>(block.shared());
    std::int64_t *digit = counts + kDigits, *left = digit + 1;
    block.each(1, [&](std::int64_t) { *left = listed; });
    U last = 0, known = 0;
    for (int shift = 8 * static_cast<int>(sizeof(U)) - 8; shift >= 0; shift -= 8) {
      block.each(kDigits, [&](std::int64_t d) { counts[d] = 0; });
      block.each(n, [&](std::int64_t k) {
        const U x = ordered(score[k]);
        if ((x & known) == last) block.add(counts + static_cast<std::int64_t>((x >> shift) & 0xFF), 1);
      });
      block.each(1, [&](std::int64_t) {
        std::int64_t d = kDigits - 1;
        for (; counts[d] < *left; --d) *left -= counts[d];
        *digit = d;
      });
      last |= static_cast<U>(*digit) << shift;
      known |= U{0xFF} << shift;
    }
    // Of scores equal to the last chosen one, take the lowest positions.
    block.select(n, equal, [&](std::int64_t k) { return ordered(score[k]) == last; });
    const std::int64_t cut = equal[*left - 1];
    block.select(n, to, [&](std::int64_t k) { return ordered(score[k]) > last || (ordered(score[k]) == last && k <= cut); });
  }
};

/// Shared by the indexer's gradient kernels. ds[row, index in list]: gradient of a score.
struct IndexPairs {
  Typed target, q, k, w, ds;
  KeyLists lists;
  KeyOrder keys;
  std::int64_t heads, seq, dim;

  template <class S, class Team>
  TANDEM_HD typename S::Number product(const Team& team, std::int64_t row, std::int64_t head, std::int64_t position) const {
    return pair_dot<S>(team, q, (row * heads + head) * dim, k, keys.row(row / seq, position) * dim, dim);
  }
};

/// Computes dq, dw and the scores' gradients. One block per query.
struct IndexQueryGradKernel {
  Form form;
  IndexPairs pairs;
  Typed dq, dw;
  const StepTable* table;
  double global_queries;
  std::int64_t flops;  ///< of the whole gradient

  Grid grid() const { return {pairs.keys.batch * pairs.seq, numbers_bytes(form, 2 * pairs.lists.listed)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t row = block.index(), listed = pairs.lists.listed, n = pairs.lists.length(row), heads = pairs.heads;
    const std::int64_t dim = pairs.dim;
    A *ds = reinterpret_cast<A*>(block.shared()), *p = ds + listed;
    const std::int32_t* list = pairs.lists.of(row);
    block.template teams<kPairTeam>(0, n, [&](const auto& team, std::int64_t j) {
      A sum = A{0};
      for (std::int64_t h = 0; h < heads; ++h) {
        const A product = pairs.product<S>(team, row, h, list[j]);
        sum += load<A>(pairs.w, row * heads + h) * (product > A{0} ? product : A{0});
      }
      team.one([&] { ds[j] = sum; });
    });
    score_gradients<S>(block, row, n, ds);
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t at = row * heads + h;
      const A weight = load<A>(pairs.w, at);
      block.template teams<kPairTeam>(0, n, [&](const auto& team, std::int64_t j) {
        const A product = pairs.product<S>(team, row, h, list[j]);
        team.one([&] { p[j] = product > A{0} ? product : A{0}; });
      });
      const A slope = block.template sum<A>(n, [&](std::int64_t j) { return ds[j] * p[j]; });
      block.each(1, [&](std::int64_t) { S::put(dw, at, slope); });
      block.each(dim, [&](std::int64_t d) {
        A sum = A{0};
        for (std::int64_t j = 0; j < n; ++j)
          if (p[j] > A{0}) sum += ds[j] * weight * S::get(pairs.k, pairs.keys.row(row / pairs.seq, list[j]) * dim + d);
        S::put(dq, at * dim + d, sum);
      });
    }
  }

 private:
  /// Replaces sums over heads by their gradients: softmax minus target, scaled.
  template <class S, class Block, class A>
  TANDEM_HD void score_gradients(Block& block, std::int64_t row, std::int64_t n, A* s) const {
    const std::int64_t first = row * pairs.lists.listed;
    const A factor = static_cast<A>(1 / std::sqrt(static_cast<double>(pairs.heads * pairs.dim)));
    const A top = factor * block.template max<A>(n, -std::numeric_limits<A>::infinity(), [&](std::int64_t j) { return s[j]; });
    block.each(n, [&](std::int64_t j) { s[j] = exp_saturating(factor * s[j] - top); });
    const A sum = block.template sum<A>(n, [&](std::int64_t j) { return s[j]; });
    const A all = block.template sum<A>(n, [&](std::int64_t j) { return S::get(pairs.target, first + j); });
    const A slope = static_cast<A>(table->loss_scale / global_queries) * factor;
    block.each(n, [&](std::int64_t j) {
      s[j] = slope * (s[j] / sum - S::get(pairs.target, first + j) / all);
      store(pairs.ds, first + j, s[j]);
    });
  }
};

/// Computes dk. One block per key.
struct IndexKeyGradKernel {
  Form form;
  IndexPairs pairs;
  Typed dk;

  Grid grid() const {
    return {pairs.keys.batch * pairs.keys.keys,
            numbers_bytes(form, pairs.dim + kPairsAtOnce) + kPairsAtOnce * sizeof(std::int32_t)};
  }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t position = block.index() % pairs.keys.keys, sequence = block.index() / pairs.keys.keys, dim = pairs.dim;
    A *sums = reinterpret_cast<A*>(block.shared()), *slopes = sums + dim;
    auto* found = reinterpret_cast<std::int32_t*>(slopes + kPairsAtOnce);
    block.each(dim, [&](std::int64_t d) { sums[d] = A{0}; });
    each_chooser(block, pairs.lists, sequence, pairs.seq, position, found, [&](std::int64_t row, std::int64_t count) {
      const std::int64_t items = count * pairs.heads;
      const auto query_of = [&](std::int64_t item) { return row + found[item / pairs.heads]; };
      for (std::int64_t first = 0; first < items; first += kPairsAtOnce) {
        const std::int64_t end = first + kPairsAtOnce < items ? first + kPairsAtOnce : items;
        block.template teams<kPairTeam>(first, end, [&](const auto& team, std::int64_t item) {
          const std::int64_t query = query_of(item), h = item % pairs.heads;
          const A product = pairs.product<S>(team, query, h, position);
          const A ds = load<A>(pairs.ds, query * pairs.lists.listed + pairs.lists.find(query, position));
          team.one([&] { slopes[item - first] = product > A{0} ? ds * load<A>(pairs.w, query * pairs.heads + h) : A{0}; });
        });
        block.each(dim, [&](std::int64_t d) {
          A sum = sums[d];
          for (std::int64_t item = first; item < end; ++item)
            sum += slopes[item - first] * S::get(pairs.q, (query_of(item) * pairs.heads + item % pairs.heads) * dim + d);
          sums[d] = sum;
        });
      }
    });
    block.each(dim, [&](std::int64_t d) { S::put(dk, pairs.keys.row(sequence, position) * dim + d, sums[d]); });
  }
};

}  // namespace tandem::exec::device
