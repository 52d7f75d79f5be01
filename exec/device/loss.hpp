#pragma once
// Cross-entropy over a vocabulary that is sharded over tensor ranks. One block per row of logits.

#include <cmath>
#include <limits>

#include "exec/backend/step_table.hpp"
#include "exec/device/chunk.hpp"
#include "exec/device/fault.hpp"
#include "exec/device/typed.hpp"
#include "exec/shared/loss_targets.hpp"
#include "exec/shared/vector_math.hpp"

namespace tandem::exec::device {

/// The columns of a rank's vocabulary shard, with and without padding.
struct VocabShard {
  std::int64_t cols, first, real, vocab_size;

  /// Local column of a target; -1 if another rank has it or there is no target.
  TANDEM_HD std::int64_t column(std::int32_t target, Fault* fault) const {
    if (target >= vocab_size) fault->set(FaultKind::target, target);
    return target >= first && target < first + real ? target - first : -1;
  }
};

inline constexpr int kLossThreads = 512, kLossBatch = 4;  ///< threads per row; pieces that each loads at a time

/// A row of logits. Its first pieces are kept in shared memory as far as it suffices, so they are loaded once.
template <class S>
class LogitsRow {
 public:
  using A = typename S::Number;
  using In = Access<S>;
  static constexpr int n = kLanes<S>;
  using Raw = typename In::template Raw<n>;
  const Span<n> part;      ///< all columns, with padding
  const std::int64_t end;  ///< end of the columns without padding

  /// `may`: pieces of 16 bytes can be loaded.
  template <class Block>
  TANDEM_HD LogitsRow(Block& block, const Typed& logits, const VocabShard& shard, bool may)
      : part(block.index() * shard.cols, shard.cols, may),
        end(part.first + shard.real),
        logits_(logits),
        kept_(reinterpret_cast<Raw*>(block.shared())),
        capacity_(static_cast<std::int64_t>(block.shared_bytes() / sizeof(Raw))) {}

  /// Largest logit without padding. Keeps the pieces that fit into shared memory.
  template <class Block>
  TANDEM_HD A largest(Block& block) const {
    constexpr A kNone = -std::numeric_limits<A>::infinity();
    const auto larger = [](A a, A b) { return b > a ? b : a; };
    auto found = block.template gather<kLossBatch>(
        part.pieces, kNone, [&](std::int64_t k) { return In::template load<n>(logits_, part.piece(k)); },
        [&](A& top, const Raw& raw, std::int64_t k) {
          if (k < capacity_) kept_[k] = raw;
          const Wide<A, n> x = real(raw, k);
          TANDEM_UNROLL
          for (int l = 0; l < n; ++l) top = larger(top, x[l]);
        });
    block.gather_more(found, part.singles(), [&](A& top, std::int64_t k) { top = larger(top, single(k)); });
    return block.join(found, larger);
  }
  /// Sum of exp(logit - top) without padding. `kept`: call it after largest().
  template <class Block>
  TANDEM_HD A exponentials(Block& block, A top, bool kept) const {
    auto found = block.template gather<kLossBatch>(
        part.pieces, A{0}, [&](std::int64_t k) { return piece(k, kept); },
        [&](A& sum, const Raw& raw, std::int64_t k) {
          const Wide<A, n> x = real(raw, k);
          TANDEM_UNROLL
          for (int l = 0; l < n; ++l) sum += exp_short(x[l] - top);
        });
    block.gather_more(found, part.singles(), [&](A& sum, std::int64_t k) { sum += exp_short(single(k) - top); });
    return block.join(found, [](A a, A b) { return a + b; });
  }
  TANDEM_HD Raw piece(std::int64_t k, bool kept) const {
    return kept && k < capacity_ ? kept_[k] : In::template load<n>(logits_, part.piece(k));
  }

 private:
  Typed logits_;
  Raw* kept_;
  std::int64_t capacity_;

  /// Sets padding to -infinity.
  TANDEM_HD Wide<A, n> real(const Raw& raw, std::int64_t k) const {
    Wide<A, n> x = In::template numbers<n>(raw);
    if (part.piece(k) + n > end) {
      TANDEM_UNROLL
      for (int l = 0; l < n; ++l) x[l] = part.piece(k) + l < end ? x[l] : -std::numeric_limits<A>::infinity();
    }
    return x;
  }
  TANDEM_HD A single(std::int64_t k) const {
    return part.single(k) < end ? S::get(logits_, part.single(k)) : -std::numeric_limits<A>::infinity();
  }
};

struct VocabMaxKernel {
  static constexpr int kBlockThreads = kLossThreads;
  Form form;
  Typed logits, max;
  std::int64_t rows;
  VocabShard shard;

  Grid grid() const { return {rows}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    const auto top = LogitsRow<S>(block, logits, shard, is_aligned(logits, kLanes<S>)).largest(block);
    block.each(1, [&](std::int64_t) { store(max, block.index(), top); });
  }
};

struct VocabSumsKernel {
  static constexpr int kBlockThreads = kLossThreads;
  Form form;
  Typed logits, max, targets, sums;
  std::int64_t rows;
  VocabShard shard;
  Fault* fault;

  Grid grid() const { return {rows}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t row = block.index();
    const A top = load<A>(max, row);
    const A sum = LogitsRow<S>(block, logits, shard, is_aligned(logits, kLanes<S>)).exponentials(block, top, false);
    block.each(1, [&](std::int64_t) {
      const std::int64_t target = shard.column(as<const std::int32_t>(targets)[row], fault);
      store(sums, row, sum);
      store(sums, rows + row, target < 0 ? A{0} : S::get(logits, row * shard.cols + target) - top);
    });
  }
};

/// dlogits = (softmax - one-hot) * weight; the row's loss goes to `terms`. Without `max` and `sums` it computes them with the same
/// bits, keeping as much of the row as shared memory can hold. dlogits may be logits.
struct LossKernel {
  static constexpr int kBlockThreads = kLossThreads;
  Form form;
  Typed logits, max, sums, targets, terms, dlogits;
  std::int64_t rows, global_tokens;
  VocabShard shard;
  const StepTable* table;
  Fault* fault;
  double share;  ///< factor on this loss in the step's loss

  Grid grid() const { return {rows, 0, max.here() ? 0 : static_cast<std::size_t>(shard.cols / lanes_of(form)) * 16}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    constexpr int n = kLanes<S>;
    using Row = LogitsRow<S>;
    const std::int64_t row = block.index(), at = row * shard.cols;
    const std::int32_t target = as<const std::int32_t>(targets)[row];
    const std::int64_t mine = shard.column(target, fault);
    const bool known = max.here();
    const Row x(block, logits, shard, are_aligned(n, logits, dlogits));
    const A top = known ? load<A>(max, row) : x.largest(block);
    const A sum = known ? load<A>(sums, row) : x.exponentials(block, top, true);
    const A hit = known ? load<A>(sums, rows + row) : mine < 0 ? A{0} : S::get(logits, at + mine) - top;
    const A weight = target < 0 ? A{0} : static_cast<A>(table->loss_scale / loss_targets(*table, global_tokens) * share);
    const A factor = weight / sum;
    const auto gradient = [&](std::int64_t c, A logit) {
      const A d = c < shard.real && target >= 0 ? exp_short(logit - top) * factor : A{0};
      return c == mine ? d - weight : d;
    };
    block.sync();  // wait until the target's logit has been read
    block.template stream<kLossBatch>(
        x.part.pieces, [&](std::int64_t k) { return x.piece(k, !known); },
        [&](const typename Row::Raw& raw, std::int64_t k) {
          Wide<A, n> d = Access<S>::template numbers<n>(raw);
          const std::int64_t c = x.part.piece(k) - at;
          const bool plain = target >= 0 && c + n <= shard.real && (mine < c || mine >= c + n);
          TANDEM_UNROLL
          for (int l = 0; l < n; ++l) d[l] = plain ? exp_short(d[l] - top) * factor : gradient(c + l, d[l]);
          put<S>(dlogits, x.part.piece(k), d);
        });
    block.each(x.part.singles(), [&](std::int64_t k) {
      const std::int64_t i = x.part.single(k);
      S::put(dlogits, i, gradient(i - at, S::get(logits, i)));
    });
    block.each(1, [&](std::int64_t) {
      as<double>(terms)[row] = target < 0 ? 0.0 : std::log(static_cast<double>(sum)) - static_cast<double>(hit);
    });
  }
};

/// loss = (or +=, unless `first`) sum of row losses / targets of the global batch. One block.
struct LossSumKernel {
  static constexpr int kBlockThreads = 1024;
  Form form;
  Typed terms, loss;
  std::int64_t rows, global_tokens;
  bool first;
  double share;  ///< factor on this loss in the step's loss
  const StepTable* table;

  Grid grid() const { return {1}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    const double total = block.template sum<double>(rows, [&](std::int64_t r) { return as<const double>(terms)[r]; });
    block.each(1, [&](std::int64_t) {
      const double added = total / loss_targets(*table, global_tokens) * share;
      *as<double>(loss) = first ? added : *as<const double>(loss) + added;
    });
  }
};

}  // namespace tandem::exec::device
