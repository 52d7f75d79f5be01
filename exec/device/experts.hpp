#pragma once
// Moves tokens' rows to experts and back; biases of experts.

#include "exec/device/chunk.hpp"
#include "exec/device/fault.hpp"
#include "exec/device/typed.hpp"
#include "models/ops/experts.hpp"

namespace tandem::exec::device {

/// The expert row of each token's choice.
struct ChoiceRows {
  const std::int32_t* slots;
  MoeDims dims;
  std::int64_t count;  ///< number of rows, known on the host
  Fault* fault;

  TANDEM_HD std::int64_t choices() const { return dims.tokens * dims.top_k; }
  /// The row of a choice; -1 if it has none. A row beyond the last one is a fault.
  TANDEM_HD std::int64_t of(std::int64_t choice) const {
    const std::int64_t row = slots[choice];
    if (row < count) return row;
    fault->set(FaultKind::slot, row);
    return -1;
  }
};

/// rows[slot] = x[token], or weight x[token]. One block per choice.
struct DispatchKernel {
  Form form;
  Typed x, weights, rows;
  ChoiceRows at;

  Grid grid() const { return {at.choices()}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    const std::int64_t row = at.of(block.index()), token = block.index() / at.dims.top_k, hidden = at.dims.hidden;
    if (row < 0) return;
    using A = typename S::Number;
    const A weight = weights.here() ? load<A>(weights, block.index()) : A{1};
    block.each(hidden, [&](std::int64_t c) { S::put(rows, row * hidden + c, weight * S::get(x, token * hidden + c)); });
  }
};

/// y[token] = sum over its choices, ascending, of weight * row. Without weights this is MoeDispatchBackward. One block per token.
struct CombineKernel {
  Form form;
  Typed rows, weights, y;
  ChoiceRows at;

  Grid grid() const { return {at.dims.tokens}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t token = block.index(), hidden = at.dims.hidden, first = token * at.dims.top_k;
    block.each(hidden, [&](std::int64_t c) {
      A sum = A{0};
      for (std::int64_t i = first; i < first + at.dims.top_k; ++i) {
        const std::int64_t row = at.of(i);
        if (row < 0) continue;
        const A value = S::get(rows, row * hidden + c);
        sum += weights.here() ? load<A>(weights, i) * value : value;
      }
      S::put(y, token * hidden + c, sum);
    });
  }
};

/// drows[slot] = weight dy[token] if `drows` exists, dweight = dy[token] rows[slot]. One block per choice.
struct CombineGradKernel {
  Form form;
  Typed dy, rows, weights, drows, dweights;
  ChoiceRows at;

  Grid grid() const { return {at.choices()}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t choice = block.index(), token = choice / at.dims.top_k, hidden = at.dims.hidden;
    const std::int64_t row = at.of(choice);
    const A sum = block.template sum<A>(row < 0 ? 0 : hidden, [&](std::int64_t c) {
      return S::get(dy, token * hidden + c) * S::get(rows, row * hidden + c);
    });
    block.each(1, [&](std::int64_t) { store(dweights, choice, sum); });
    if (row < 0 || !drows.here()) return;
    const A weight = load<A>(weights, choice);
    block.each(hidden, [&](std::int64_t c) { S::put(drows, row * hidden + c, weight * S::get(dy, token * hidden + c)); });
  }
};

/// The rows of each expert: groups of `m` rows, or, with counts, counts[part] rows per (source rank, expert).
struct ExpertRows {
  const std::int32_t* counts;
  std::int64_t groups, experts, m;  ///< with counts, `groups` is the number of ranks

  /// Number of parts. Part i belongs to expert i % experts.
  TANDEM_HD std::int64_t parts() const { return counts == nullptr ? groups : groups * experts; }
  TANDEM_HD std::int64_t rows(std::int64_t part) const { return counts == nullptr ? m : counts[part]; }
  TANDEM_HD std::int64_t first(std::int64_t part) const {
    if (counts == nullptr) return part * m;
    std::int64_t row = 0;
    for (std::int64_t i = 0; i < part; ++i) row += counts[i];
    return row;
  }
};

/// Copies one expert's rows, which are stored apart by source rank, to consecutive rows of `joined`; `back`: the reverse. Several
/// blocks per part take its elements in turn.
struct JoinRowsKernel {
  Form form;
  Typed apart, joined;
  ExpertRows experts;
  std::int64_t expert, cols;
  std::int64_t blocks_of_part;
  bool back;

  Grid grid() const { return {experts.parts() / experts.experts * blocks_of_part}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    switch (bits(joined.type)) {
      case 16: return copy<std::uint16_t>(block);
      case 64: return copy<std::uint64_t>(block);
      default: return copy<std::uint32_t>(block);
    }
  }

 private:
  template <class T, class Block>
  TANDEM_HD void copy(Block& block) const {
    constexpr int kWidth = 16 / sizeof(T);
    const std::int64_t part = expert + block.index() / blocks_of_part * experts.experts, n = experts.rows(part) * cols;
    const std::int64_t at = experts.first(part) * cols;
    std::int64_t place = 0;
    for (std::int64_t p = expert; p < part; p += experts.experts) place += experts.rows(p) * cols;
    const Typed from = back ? joined : apart, to = back ? apart : joined;
    const std::int64_t from_at = back ? place : at, to_at = back ? at : place;
    const bool wide = cols % kWidth == 0 && are_aligned(kWidth, from, to);
    for (std::int64_t i = block.index() % blocks_of_part * kChunk; i < n; i += blocks_of_part * kChunk) {
      const std::int64_t count = n - i < kChunk ? n - i : kChunk;
      const auto move = [&](auto lanes, std::int64_t k) {
        store_cells(to, to_at + i + k * lanes.n, load_cells<T, decltype(lanes)::n>(from, from_at + i + k * lanes.n));
      };
      if (wide) block.each(count / kWidth, [&](std::int64_t k) { move(Lanes<kWidth>{}, k); });
      else block.each(count, [&](std::int64_t k) { move(Lanes<1>{}, k); });
    }
  }
};

/// x += bias of each row's expert. Several blocks per part take its rows in turn.
struct ExpertBiasKernel {
  Form form;
  Typed x, biases;
  ExpertRows experts;
  std::int64_t n;
  std::int64_t blocks_of_part;

  Grid grid() const { return {experts.parts() * blocks_of_part}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t part = block.index() / blocks_of_part, first = experts.first(part), rows = experts.rows(part);
    const std::int64_t bias = part % experts.experts * n;
    for (std::int64_t r = block.index() % blocks_of_part; r < rows; r += blocks_of_part)
      block.each(n, [&](std::int64_t c) {
        const std::int64_t at = (first + r) * n + c;
        S::put(x, at, S::get(x, at) + load<A>(biases, bias + c));
      });
  }
};

/// dbiases[expert] = sum of its rows of dy, in a fixed order. One block per expert and 32 columns.
struct ExpertBiasGradKernel {
  Form form;
  Typed dy, dbiases;
  ExpertRows experts;
  std::int64_t n;

  static constexpr std::int64_t kColumns = 32, kBeside = 32;  ///< columns, and rows summed side by side
  TANDEM_HD std::int64_t tiles() const { return (n + kColumns - 1) / kColumns; }
  Grid grid() const {
    return {experts.experts * tiles(), kColumns * kBeside * (form == Form::doubles ? sizeof(double) : sizeof(float))};
  }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    A* sums = reinterpret_cast<A*>(block.shared());
    const std::int64_t expert = block.index() / tiles(), column = block.index() % tiles() * kColumns;
    block.each(kColumns * kBeside, [&](std::int64_t i) {
      const std::int64_t c = column + i % kColumns;
      A sum = A{0};
      for (std::int64_t part = expert; c < n && part < experts.parts(); part += experts.experts) {
        const std::int64_t first = experts.first(part), rows = experts.rows(part);
        for (std::int64_t r = i / kColumns; r < rows; r += kBeside) sum += S::get(dy, (first + r) * n + c);
      }
      sums[i] = sum;
    });
    block.each(kColumns, [&](std::int64_t i) {
      if (column + i >= n) return;
      A sum = A{0};
      for (std::int64_t r = 0; r < kBeside; ++r) sum += sums[r * kColumns + i];
      store(dbiases, expert * n + column + i, sum);
    });
  }
};

}  // namespace tandem::exec::device
