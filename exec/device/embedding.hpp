#pragma once
// Lookup of embedding rows, and the table's gradient.

#include "exec/device/fault.hpp"
#include "exec/device/rows.hpp"

namespace tandem::exec::device {

/// The rows of the whole table that a rank holds.
struct TableRows {
  std::int64_t first, count, all;

  /// A token's local row; -1 if another rank holds it. A token outside the table is a fault, also -1.
  TANDEM_HD std::int64_t row(std::int32_t token, Fault* fault) const {
    if (token < 0 || token >= all) {
      fault->set(FaultKind::token, token);
      return -1;
    }
    return token >= first && token < first + count ? token - first : -1;
  }
};

struct EmbeddingKernel {
  Form form;
  Typed tokens, table, y;
  std::int64_t elements, hidden;
  TableRows rows;
  bool add;
  Fault* fault;

  Grid grid() const { return chunks(elements); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const bool may = are_aligned(kLanes<S>, table, y) && hidden % kLanes<S> == 0;
    each_wide<kLanes<S>>(block, elements, may, [&](auto lanes, std::int64_t i) {
      constexpr int n = decltype(lanes)::n;
      const Cell at = cell_of(i, hidden);
      const std::int64_t row = rows.row(as<const std::int32_t>(tokens)[at.row], fault);
      if (row < 0 && add) return;
      const Wide<A, n> found = row < 0 ? zeros<A, n>() : load_wide<A, n>(table, row * hidden + at.col);
      put<S>(y, i, add ? get<S, n>(y, i) + found : found);
    });
  }
};

/// For each table row, the first token position that uses it. Positions must be initialised to all ones.
struct FirstTokenKernel {
  Form form;
  Typed tokens;
  std::uint32_t* first;
  std::int64_t count;
  TableRows rows;
  Fault* fault;

  Grid grid() const { return chunks(count); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    each_in_chunk(block, count, [&](std::int64_t t) {
      const std::int64_t row = rows.row(as<const std::int32_t>(tokens)[t], fault);
      if (row >= 0) block.least(first + row, static_cast<std::uint32_t>(t));
    });
  }
};

/// One block per token. The block of the first of equal tokens sums the gradients of all of them, in a fixed order. All other rows
/// of the table must be zero already.
struct EmbeddingGradKernel {
  Form form;
  Typed tokens, dy, dtable;
  const std::uint32_t* first;
  std::int64_t count, hidden;
  TableRows rows;

  static constexpr std::int64_t kCompared = 2048, kTeams = kThreads / 32, kColumns = 256;
  static constexpr std::size_t kSumBytes = kTeams * kColumns * sizeof(double);
  /// Shared memory: the sums of each warp, and the positions of equal tokens.
  Grid grid() const { return {count, kSumBytes + kCompared * sizeof(std::int32_t)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    const std::int64_t mine = block.index(), row = as<const std::int32_t>(tokens)[mine] - rows.first;
    if (row < 0 || row >= rows.count || first[row] != static_cast<std::uint32_t>(mine)) return;
    if (are_aligned(kLanes<S>, dy, dtable) && hidden % kLanes<S> == 0) sum<S, kLanes<S>>(block, row);
    else sum<S, 1>(block, row);
  }

 private:
  /// Each warp sums every eighth of the equal tokens, kColumns
  /// columns at a time. Then the warps' sums are added in order.
  template <class S, int N, class Block>
  TANDEM_HD void sum(Block& block, std::int64_t row) const {
    auto* equal = reinterpret_cast<std::int32_t*>(block.shared() + kSumBytes);
    const std::int32_t* all = as<const std::int32_t>(tokens);
    const std::int32_t token = all[block.index()];
    for (std::int64_t from = block.index(); from < count; from += kCompared) {
      const std::int64_t n = count - from < kCompared ? count - from : kCompared;
      const std::int64_t found = block.select(n, equal, [&](std::int64_t t) { return all[from + t] == token; });
      if (found == 0) continue;
      for (std::int64_t column = 0; column < hidden; column += 32 * N)
        columns<S, N>(block, {row * hidden + column, from, found, column}, equal);
    }
  }
  struct Part {
    std::int64_t to, from, found, column;
  };
  template <class Held>
  struct Sum {
    Held value;
  };
  template <class S, int N, class Block>
  TANDEM_HD void columns(Block& block, const Part& part, const std::int32_t* equal) const {
    using A = typename S::Number;
    using State = Sum<typename Block::template Team<32>::template Held<Wide<A, N>, 1>>;
    constexpr int kTogether = 4;
    A* sums = reinterpret_cast<A*>(block.shared());
    const std::int64_t width = hidden - part.column < 32 * N ? hidden - part.column : 32 * N;
    const auto add = [&](const auto& team, State& state, std::int64_t item) {
      team.template each<1>(width / N, [&](Slot s) {
        typename Access<S>::template Raw<N> d[kTogether];
        TANDEM_UNROLL
        for (int t = 0; t < kTogether; ++t) {
          const std::int64_t place = item * kTogether + t < part.found ? item * kTogether + t : part.found - 1;
          d[t] = Access<S>::template load<N>(dy, (part.from + equal[place]) * hidden + part.column + s.i * N);
        }
        TANDEM_UNROLL
        for (int t = 0; t < kTogether; ++t)
          if (item * kTogether + t < part.found) state.value[s] = state.value[s] + Access<S>::template numbers<N>(d[t]);
      });
    };
    const auto done = [&](const auto& team, State& state, int number) {
      const Typed to{reinterpret_cast<std::byte*>(sums + number * kColumns), sizeof(A) == 8 ? DType::fp64 : DType::fp32};
      team.template each<1>(width / N, [&](Slot s) { store_cells(to, s.i * N, cells_of<A>(state.value[s])); });
    };
    block.template teams<32, State>(0, parts(part.found, kTogether), add, done);
    block.each(width, [&](std::int64_t c) {
      A sum = part.from == block.index() ? A{0} : load<A>(dtable, part.to + c);
      TANDEM_UNROLL
      for (int t = 0; t < kTeams; ++t) sum += sums[t * kColumns + c];
      store(dtable, part.to + c, sum);
    });
  }
};

}  // namespace tandem::exec::device
