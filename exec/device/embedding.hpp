#pragma once
// Rows of an embedding table, and their gradient.

#include "exec/device/chunk.hpp"
#include "exec/device/fault.hpp"
#include "exec/device/typed.hpp"

namespace tandem::exec::device {

/// Which rows of the whole table a rank has.
struct TableRows {
  std::int64_t first, count, all;

  /// A token's row here; -1 when another rank has it or nobody does, which is a fault.
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
    each_in_chunk(block, elements, [&](std::int64_t i) {
      const std::int64_t row = rows.row(as<const std::int32_t>(tokens)[i / hidden], fault);
      if (row < 0 && add) return;
      const A found = row < 0 ? A{0} : load<A>(table, row * hidden + i % hidden);
      S::put(y, i, add ? S::get(y, i) + found : found);
    });
  }
};

/// A block for each token; the first of equal tokens adds up all of them, ascending. Other rows of the table were zeroed before.
struct EmbeddingGradKernel {
  Form form;
  Typed tokens, dy, dtable;
  std::int64_t count, hidden;
  TableRows rows;
  Fault* fault;

  /// A flag for each token that is compared at a time.
  Grid grid() const { return {count, kCompared * sizeof(std::int32_t)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t mine = block.index();
    const std::int32_t* all = as<const std::int32_t>(tokens);
    const std::int32_t token = all[mine];
    const std::int64_t row = rows.row(token, fault);
    if (row < 0 || block.any(mine, [&](std::int64_t t) { return all[t] == token; })) return;
    block.each(hidden, [&](std::int64_t c) { store(dtable, row * hidden + c, A{0}); });
    auto* equal = reinterpret_cast<std::int32_t*>(block.shared());
    for (std::int64_t first = mine; first < count; first += kCompared) {
      const std::int64_t n = count - first < kCompared ? count - first : kCompared;
      if (!block.any(n, [&](std::int64_t t) { return all[first + t] == token; })) continue;
      block.each(n, [&](std::int64_t t) { equal[t] = all[first + t] == token ? 1 : 0; });
      block.each(hidden, [&](std::int64_t c) {
        A sum = load<A>(dtable, row * hidden + c);
        for (std::int64_t t = 0; t < n; ++t)
          if (equal[t] != 0) sum += S::get(dy, (first + t) * hidden + c);
        store(dtable, row * hidden + c, sum);
      });
    }
  }

  static constexpr std::int64_t kCompared = 1024;
};

}  // namespace tandem::exec::device
