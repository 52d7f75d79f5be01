#pragma once
// Expands compressed rows into heads of latent attention, and the gradient.

#include "exec/device/chunk.hpp"
#include "exec/device/typed.hpp"

namespace tandem::exec::device {

/// Sizes of a token's heads: a query of `dim`; a key whose first `turned` (rotary) dimensions all heads share; a value of `wide`.
struct LatentRows {
  std::int64_t rows, heads, dim, turned, wide;
  double query_scale;

  TANDEM_HD std::int64_t own() const { return dim - turned + wide; }   ///< per head in kv: key and value without the shared part
  TANDEM_HD std::int64_t group() const { return 2 * dim + wide; }     ///< columns per head in qkv
};

/// Builds qkv from queries, keys and values, and the keys' shared part.
struct LatentHeadsKernel {
  Form form;
  Typed q, kv, common, qkv;
  LatentRows all;

  Grid grid() const { return chunks(all.rows * all.heads * all.group()); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    each_in_chunk(block, all.rows * all.heads * all.group(), [&](std::int64_t i) {
      const Cell at = cell_of(i, all.group());
      const std::int64_t key = at.col - all.dim, own = key - all.turned;
      if (key < 0) S::put(qkv, i, static_cast<A>(all.query_scale) * S::get(q, at.row * all.dim + at.col));
      else S::put(qkv, i, own < 0 ? S::get(common, at.row / all.heads * all.turned + key) : S::get(kv, at.row * all.own() + own));
    });
  }
};

/// Gradients of all three inputs from that of qkv. The shared part's gradient is the sum over the heads, in order.
struct LatentHeadsGradKernel {
  Form form;
  Typed dqkv, dq, dkv, dcommon;
  LatentRows all;

  TANDEM_HD std::int64_t of_heads() const { return all.rows * all.heads * (all.dim + all.own()); }
  Grid grid() const { return chunks(of_heads() + all.rows * all.turned); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    each_in_chunk(block, of_heads() + all.rows * all.turned, [&](std::int64_t i) {
      if (i >= of_heads()) return sum<S>(i - of_heads());
      const Cell at = cell_of(i, all.dim + all.own());
      const std::int64_t first = at.row * all.group(), own = at.col - all.dim;
      if (own < 0) S::put(dq, at.row * all.dim + at.col, static_cast<A>(all.query_scale) * S::get(dqkv, first + at.col));
      else S::put(dkv, at.row * all.own() + own, S::get(dqkv, first + all.dim + all.turned + own));
    });
  }

 private:
  template <class S>
  TANDEM_HD void sum(std::int64_t i) const {
    const Cell at = cell_of(i, all.turned);
    typename S::Number total{0};
    for (std::int64_t h = 0; h < all.heads; ++h) total += S::get(dqkv, (at.row * all.heads + h) * all.group() + all.dim + at.col);
    S::put(dcommon, i, total);
  }
};

}  // namespace tandem::exec::device
