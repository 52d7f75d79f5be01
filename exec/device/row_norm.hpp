#pragma once
// RMS norms of a token's queries, and of its keys, over all heads of all tensor ranks, and their gradients.

#include <cmath>

#include "exec/device/columns.hpp"
#include "exec/device/head_norm.hpp"

namespace tandem::exec::device {

/// A token's queries, or its keys, as one row. Maps its element `i` to heads of HeadRows.
struct TokenRow {
  const HeadRows& heads;
  std::int64_t token;
  bool key;

  TANDEM_HD std::int64_t length() const { return heads.groups * (key ? 1 : heads.queries) * heads.dim; }
  TANDEM_HD std::int64_t head(std::int64_t i) const {
    const std::int64_t number = i / heads.dim, first = token * heads.groups * (heads.queries + 1);
    if (key) return first + number * (heads.queries + 1) + heads.queries;
    return first + number / heads.queries * (heads.queries + 1) + number % heads.queries;
  }
  TANDEM_HD std::int64_t in_qkv(std::int64_t i) const { return heads.in_qkv(head(i)) + i % heads.dim; }
  TANDEM_HD std::int64_t packed(std::int64_t i) const { return head(i) * heads.dim + i % heads.dim; }
};

/// Parameters of the norms of all tokens. `sums` cover all ranks.
struct RowNorms {
  HeadRows heads;
  std::int64_t ranks;
  double epsilon;

  TANDEM_HD std::int64_t columns() const { return heads.groups * (heads.queries + 1) * heads.dim; }
  template <class A>
  TANDEM_HD A length(const TokenRow& row) const {
    return static_cast<A>(row.length() * ranks);
  }
  template <class A>
  TANDEM_HD A inverse_root(const Typed& sums, const TokenRow& row) const {
    return A{1} / std::sqrt(load<A>(sums, 2 * row.token + row.key) / length<A>(row) + static_cast<A>(epsilon));
  }
};

/// sums[token, {queries, keys}]: of squares, or, if `kept` exists, of dy gamma x. One block per token.
struct RowSumsKernel {
  Form form;
  Typed x, kept, of_queries, of_keys, sums;  ///< x: qkv, or its gradient
  HeadRows heads;

  Grid grid() const { return {heads.tokens}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    for (int part = 0; part < 2; ++part) {
      const bool key = part == 1;
      const TokenRow row{heads, block.index(), key};
      const Typed& gamma = key ? of_keys : of_queries;
      const A sum = block.template sum<A>(row.length(), [&](std::int64_t i) {
        const A value = S::get(x, row.in_qkv(i));
        return kept.here() ? value * load<A>(gamma, i) * S::get(kept, row.packed(i)) : value * value;
      });
      block.each(1, [&](std::int64_t) { store(sums, 2 * row.token + key, sum); });
    }
  }
};

/// qkv = its norm; kept = its old value. One block per token.
struct RowNormKernel {
  Form form;
  Typed qkv, of_queries, of_keys, sums, kept;
  RowNorms norms;

  Grid grid() const { return {norms.heads.tokens}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    for (int part = 0; part < 2; ++part) {
      const bool key = part == 1;
      const TokenRow row{norms.heads, block.index(), key};
      const Typed& gamma = key ? of_keys : of_queries;
      const A rstd = norms.inverse_root<A>(sums, row);
      block.each(row.length(), [&](std::int64_t i) {
        const std::int64_t at = row.in_qkv(i);
        const A value = S::get(qkv, at);
        S::put(kept, row.packed(i), value);
        S::put(qkv, at, value * rstd * load<A>(gamma, i));
      });
    }
  }
};

/// A slab's partial sums of the weights' gradients, for ColumnFoldKernel: [slab, columns] of the queries, then of the keys. One
/// block per slab and kThreads columns. Must run before dqkv changes.
struct RowNormWeightsKernel {
  Form form;
  Typed dqkv, kept, sums, partials;
  RowNorms norms;

  TANDEM_HD Slabs slabs() const { return column_slabs(norms.heads.tokens, norms.columns()); }
  Grid grid() const {
    const std::size_t number = form == Form::doubles ? sizeof(double) : sizeof(float);
    return {slabs().count * parts(norms.columns(), kThreads), (2 * kTokens + kThreads) * number};
  }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const Slabs all = slabs();
    const std::int64_t slab = block.index() % all.count, begin = block.index() / all.count * kThreads, end = all.first(slab + 1);
    const std::int64_t rest = norms.columns() - begin, width = rest < kThreads ? rest : kThreads;
    A *const rstd = reinterpret_cast<A*>(block.shared()), *const totals = rstd + 2 * kTokens;
    block.each(width, [&](std::int64_t i) { totals[i] = A{0}; });
    for (std::int64_t first = all.first(slab); first < end; first += kTokens) {
      const std::int64_t count = end - first < kTokens ? end - first : kTokens;
      block.each(2 * count, [&](std::int64_t t) {
        rstd[t] = norms.inverse_root<A>(sums, TokenRow{norms.heads, first + t / 2, t % 2 == 1});
      });
      block.each(width, [&](std::int64_t i) { totals[i] = sum_of<S>(totals[i], rstd, begin + i, first, count); });
    }
    A* const to = as<A>(partials);
    block.each(width, [&](std::int64_t i) {
      const Column c = column(begin + i);
      to[(c.key ? all.count * queries() : 0) + slab * TokenRow{norms.heads, 0, c.key}.length() + c.number] = totals[i];
    });
  }

 private:
  static constexpr std::int64_t kTokens = 16;  ///< tokens whose 1/rms are in shared memory at a time

  /// A column among the queries' or the keys'.
  struct Column {
    bool key;
    std::int64_t number;
  };
  TANDEM_HD std::int64_t queries() const { return TokenRow{norms.heads, 0, false}.length(); }
  TANDEM_HD Column column(std::int64_t c) const { return c < queries() ? Column{false, c} : Column{true, c - queries()}; }
  /// `sum` plus a column's terms of some tokens, token by token.
  template <class S, class A>
  TANDEM_HD A sum_of(A sum, const A* rstd, std::int64_t col, std::int64_t first, std::int64_t count) const {
    const Column c = column(col);
    const TokenRow row{norms.heads, first, c.key};
    const std::int64_t in_qkv = row.in_qkv(c.number), packed = row.packed(c.number), token = norms.heads.groups * norms.heads.width;
    for (std::int64_t t = 0; t < count; ++t)
      sum += S::get(dqkv, in_qkv + t * token) * (S::get(kept, packed + t * norms.columns()) * rstd[2 * t + (c.key ? 1 : 0)]);
    return sum;
  }
};

/// dqkv becomes the gradient of the norm's input: rstd (g - xhat mean(g xhat)) with g = dy gamma. One block per token.
struct RowNormGradKernel {
  Form form;
  Typed dqkv, kept, of_queries, of_keys, sums, dots;
  RowNorms norms;

  Grid grid() const { return {norms.heads.tokens}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    for (int part = 0; part < 2; ++part) {
      const bool key = part == 1;
      const TokenRow row{norms.heads, block.index(), key};
      const Typed& gamma = key ? of_keys : of_queries;
      const A rstd = norms.inverse_root<A>(sums, row);
      const A mean = load<A>(dots, 2 * row.token + key) * rstd / norms.length<A>(row);
      block.each(row.length(), [&](std::int64_t i) {
        const std::int64_t at = row.in_qkv(i);
        const A xhat = S::get(kept, row.packed(i)) * rstd;
        S::put(dqkv, at, rstd * (S::get(dqkv, at) * load<A>(gamma, i) - xhat * mean));
      });
    }
  }
};

}  // namespace tandem::exec::device
