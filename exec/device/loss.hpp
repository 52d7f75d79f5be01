#pragma once
// Cross-entropy over a vocabulary cut across tensor ranks, a block for each row of logits.

#include <cmath>
#include <limits>

#include "exec/backend/step_table.hpp"
#include "exec/device/chunk.hpp"
#include "exec/device/fault.hpp"
#include "exec/device/typed.hpp"
#include "exec/shared/vector_math.hpp"

namespace tandem::exec::device {

/// A rank's columns, in the whole vocabulary and without padding.
struct VocabShard {
  std::int64_t cols, first, real, vocab_size;

  /// Column of a target here, or -1 when another rank has it, or there is none.
  TANDEM_HD std::int64_t column(std::int32_t target, Fault* fault) const {
    if (target >= vocab_size) fault->set(FaultKind::target, target);
    return target >= first && target < first + real ? target - first : -1;
  }
};

template <class S, class Block>
TANDEM_HD inline typename S::Number largest(Block& block, const Typed& logits, std::int64_t at, std::int64_t n) {
  using A = typename S::Number;
  return block.template max<A>(n, -std::numeric_limits<A>::infinity(), [&](std::int64_t c) { return S::get(logits, at + c); });
}

template <class S, class Block>
TANDEM_HD inline typename S::Number exponentials(Block& block, const Typed& logits, std::int64_t at, std::int64_t n,
                                                 typename S::Number top) {
  using A = typename S::Number;
  return block.template sum<A>(n, [&](std::int64_t c) { return exp_saturating(S::get(logits, at + c) - top); });
}

struct VocabMaxKernel {
  Form form;
  Typed logits, max;
  std::int64_t rows;
  VocabShard shard;

  Grid grid() const { return {rows}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    const std::int64_t row = block.index();
    const auto top = largest<S>(block, logits, row * shard.cols, shard.real);
    block.each(1, [&](std::int64_t) { store(max, row, top); });
  }
};

struct VocabSumsKernel {
  Form form;
  Typed logits, max, targets, sums;
  std::int64_t rows;
  VocabShard shard;
  Fault* fault;

  Grid grid() const { return {rows}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t row = block.index(), at = row * shard.cols;
    const A top = load<A>(max, row), sum = exponentials<S>(block, logits, at, shard.real, top);
    block.each(1, [&](std::int64_t) {
      const std::int64_t target = shard.column(as<const std::int32_t>(targets)[row], fault);
      store(sums, row, sum);
      store(sums, rows + row, target < 0 ? A{0} : S::get(logits, at + target) - top);
    });
  }
};

/// dlogits = (softmax - one-hot) * weight, and the row's loss in `terms`. Without `max` and `sums` it finds them itself. dlogits may
/// be logits.
struct LossKernel {
  Form form;
  Typed logits, max, sums, targets, terms, dlogits;
  std::int64_t rows, global_tokens;
  VocabShard shard;
  const StepTable* table;
  Fault* fault;

  Grid grid() const { return {rows}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t row = block.index(), at = row * shard.cols;
    const std::int32_t target = as<const std::int32_t>(targets)[row];
    const std::int64_t mine = shard.column(target, fault);
    const A top = max.here() ? load<A>(max, row) : largest<S>(block, logits, at, shard.real);
    const A sum = sums.here() ? load<A>(sums, row) : exponentials<S>(block, logits, at, shard.real, top);
    const A hit = sums.here() ? load<A>(sums, rows + row) : mine < 0 ? A{0} : S::get(logits, at + mine) - top;
    const A weight = target < 0 ? A{0} : static_cast<A>(table->loss_scale / static_cast<double>(global_tokens));
    const A factor = weight / sum;
    block.sync();
    block.each(shard.cols, [&](std::int64_t c) {
      A d = A{0};
      if (c < shard.real && target >= 0) d = exp_saturating(S::get(logits, at + c) - top) * factor;
      S::put(dlogits, at + c, c == mine ? d - weight : d);
      if (c == 0) as<double>(terms)[row] = target < 0 ? 0.0 : std::log(static_cast<double>(sum)) - static_cast<double>(hit);
    });
  }
};

/// loss (= or += unless `first`) sum of the rows' losses / tokens of the global batch. One block.
struct LossSumKernel {
  Form form;
  Typed terms, loss;
  std::int64_t rows, global_tokens;
  bool first;

  Grid grid() const { return {1}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    const double total = block.template sum<double>(rows, [&](std::int64_t r) { return as<const double>(terms)[r]; });
    block.each(1, [&](std::int64_t) {
      const double added = total / static_cast<double>(global_tokens);
      *as<double>(loss) = first ? added : *as<const double>(loss) + added;
    });
  }
};

}  // namespace tandem::exec::device
