#pragma once
// Sizes at which operations are measured.

#include <cstdint>
#include <utility>
#include <vector>

#include "models/ops/op.hpp"

namespace tandem::exec {

using Sizes = std::vector<std::int64_t>;

/// Grids of sizes. Each function calls f once for every size of one kind of operation. `quick`: a coarser grid.
class GridSizes {
 protected:
  explicit GridSizes(bool quick) : quick_(quick) {}

  template <class F>
  void matrices(F f) {
    const Sizes rows = quick_ ? Sizes{32, 256, 2048} : Sizes{16, 64, 256, 1024, 4096};
    const Sizes cols = quick_ ? Sizes{32, 192, 1024} : Sizes{16, 48, 128, 256, 768, 2048};
    for (const auto r : rows)
      for (const auto c : cols)
        if (r * c <= kMostElements) f(r, c);
  }

  template <class F>
  void attention(F f) {
    const Sizes seqs = quick_ ? Sizes{32, 128, 256} : Sizes{16, 32, 64, 128, 256, 512};
    const Sizes dims = quick_ ? Sizes{16, 64} : Sizes{8, 16, 32, 64, 128};
    for (const auto& [batch, heads] : {std::pair{1, 2}, {2, 2}, {1, 8}, {4, 4}, {8, 8}})
      for (const auto s : seqs)
        for (const auto d : dims)
          if (batch * heads * s * s <= kMostElements) f(AttentionDims{batch, heads, s, d});
  }

  // Coarser grids, for simpler or rarer operations.
  template <class F>
  void few_matrices(F f) {
    for (const std::int64_t r : {16, 256, 4096})
      for (const std::int64_t c : {32, 128, 512}) f(r, c);
  }
  template <class F>
  void few_attentions(F f) {
    for (const auto& [batch, heads] : {std::pair{1, 2}, {4, 4}})
      for (const std::int64_t s : {32, 128, 256})
        for (const std::int64_t d : {16, 64}) f(AttentionDims{batch, heads, s, d});
  }
  /// Attention in which a window of a quarter of the keys is visible. Other windows are predicted by FLOPs.
  template <class F>
  void windows(F f) {
    few_attentions([&](AttentionDims d) {
      d.window = d.seq / 4;
      f(d);
    });
  }
  template <class Flash>
  static Flash with_sinks(Flash op) {
    op.sinks = true;
    return op;
  }
  template <class Flash>
  static Flash with_cap(Flash op) {
    op.soft_cap = 50;
    return op;
  }
  template <class Flash>
  static Flash with_list(Flash op) {
    op.chosen = true;
    return op;
  }
  /// Indexers that choose a quarter of the keys.
  template <class F>
  void indexers(F f) {
    few_attentions([&](AttentionDims d) { f(IndexDims{d.batch, d.heads, d.seq, d.head_dim, d.seq / 4}); });
  }
  /// Recurrences of both rules with two value heads for each key head.
  template <class F>
  void recurrences(F f) {
    for (const RecurrenceRule rule : {RecurrenceRule::gated_delta, RecurrenceRule::mamba2})
      for (const std::int64_t heads : {4, 16})
        for (const std::int64_t seq : {64, 512})
          for (const std::int64_t dim : {16, 64}) f(RecurrenceDims{rule, 1, heads, seq, heads / 2, dim, dim});
  }
  /// Norms with gates of both recurrence rules: one weight for all parts and the gate after the norm, or the reverse.
  template <class F>
  void gated_norms(F f) {
    for (const bool whole : {false, true})
      matrices([&](auto r, auto c) { f(GatedNorm{r, 2, c / 2, !whole, 1e-5, whole}); });
  }
  static AttentionDims both_ways(AttentionDims d) {
    d.causal = false;
    return d;
  }
  template <class F>
  void experts(F f) {
    for (const std::int64_t tokens : {64, 512, 2048})
      for (const std::int64_t hidden : {32, 256})
        for (const std::int64_t experts : {4, 16})
          for (const std::int64_t top_k : {1, 2})
            for (const std::int64_t capacity : {std::int64_t{0}, tokens * top_k / experts})
              f(MoeDims{tokens, hidden, experts, top_k, capacity});
  }
  template <class F>
  void groups(F f) {
    for (const std::int64_t experts : {2, 8})
      for (const std::int64_t m : {16, 64, 256})
        for (const std::int64_t n : {64, 256})
          for (const std::int64_t k : {64, 256}) {
            f(experts, experts, m, n, k, false);
            f(std::int64_t{1}, experts, experts * m, n, k, true);
          }
  }
  template <class F>
  void biases(F f) {
    for (const std::int64_t experts : {2, 8})
      for (const std::int64_t m : {16, 64, 256})
        for (const std::int64_t n : {64, 256, 1024}) {
          f(experts, experts, m, n, false);
          f(std::int64_t{1}, experts, experts * m, n, true);
        }
  }

  template <class F>
  void sequences(F f) {
    for (const std::int64_t b : {1, 4, 16})
      for (const std::int64_t s : {32, 128, 512})
        for (const std::int64_t h : {32, 128, 512})
          if (b * s * h <= kMostElements) f(b, s, h);
  }

  Sizes vectors(std::int64_t largest) const {
    Sizes sizes;
    for (std::int64_t n = 256; n <= largest; n *= quick_ ? 8 : 2) sizes.push_back(n);
    return sizes;
  }

  static constexpr std::int64_t kMostElements = std::int64_t{1} << 21;
  bool quick_;
};

}  // namespace tandem::exec
