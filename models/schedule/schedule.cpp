#include "models/schedule/schedule.hpp"

#include <algorithm>

#include "models/schedule/controllable_memory.hpp"
#include "models/schedule/dualpipe.hpp"
#include "models/schedule/zb_v.hpp"
#include "models/schedule/zero_bubble.hpp"

namespace tandem {
namespace {

using Actions = std::vector<Action>;

/// All passes of one direction: group by group, in a group chunk by chunk, in a chunk micro-batch by micro-batch.
Actions passes(Phase phase, const ScheduleShape& shape, std::int64_t group) {
  Actions all;
  all.reserve(static_cast<std::size_t>(shape.micro_batches * shape.chunks));
  for (std::int64_t first = 0; first < shape.micro_batches; first += group) {
    const std::int64_t end = std::min(first + group, shape.micro_batches);
    for (std::int64_t c = 0; c < shape.chunks; ++c) {
      const std::int64_t chunk = phase == Phase::forward ? c : shape.chunks - 1 - c;
      for (std::int64_t i = first; i < end; ++i)
        all.push_back({phase, static_cast<std::int32_t>(i), static_cast<std::int32_t>(chunk)});
    }
  }
  return all;
}

/// `warmup` forwards, then one forward and one backward in turn, then the remaining backwards.
Actions alternate(const ScheduleShape& shape, std::int64_t group, std::int64_t warmup) {
  const Actions forwards = passes(Phase::forward, shape, group), backwards = passes(Phase::backward, shape, group);
  const auto ahead = std::min(static_cast<std::size_t>(warmup), forwards.size());
  Actions order(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(ahead));
  order.reserve(3 * forwards.size());
  for (std::size_t k = 0; k < backwards.size(); ++k) {
    if (ahead + k < forwards.size()) order.push_back(forwards[ahead + k]);
    order.push_back(backwards[k]);
  }
  return order;
}

/// Splits every backward of `order`: its weight follows the backward that is `delay` later, or the end.
Actions with_weights(const Actions& order, std::int64_t delay) {
  Actions split, pending;
  split.reserve(order.size() + order.size() / 2);
  std::size_t next = 0;
  for (const Action& a : order) {
    split.push_back(a);
    if (a.phase != Phase::backward) continue;
    pending.push_back({Phase::weight, a.micro_batch, a.chunk});
    if (pending.size() - next > static_cast<std::size_t>(delay)) split.push_back(pending[next++]);
  }
  split.insert(split.end(), pending.begin() + static_cast<std::ptrdiff_t>(next), pending.end());
  return split;
}

void check(ScheduleKind kind, const ScheduleShape& shape, StageId stage) {
  require(shape.stages >= 1 && shape.micro_batches >= 1 && shape.chunks >= 1, "a schedule of nothing");
  require(stage.value() >= 0 && stage.value() < shape.stages, "a schedule of a stage that is not there");
  require(shape.chunks == 1 || has_chunks(kind), "this schedule has no chunks");
  require(!shape.pairs || kind == ScheduleKind::one_f_one_b || kind == ScheduleKind::interleaved ||
              kind == ScheduleKind::dualpipe_v,
          "a schedule without pairs");
  require(shape.folded == folds(kind), "a V where chunks are in order, or none where they fold");
  require(!folds(kind) || shape.chunks == 2, "a V has two chunks a stage");
  require(kind != ScheduleKind::dualpipe_v || shape.micro_batches >= 2 * shape.stages, "a DualPipeV that is too short");
  require(shape.costs.empty() || static_cast<std::int64_t>(shape.costs.size()) == shape.stages, "costs of other stages");
}

}  // namespace

std::int64_t interleaved_group(const ScheduleShape& shape) {
  const std::int64_t p = shape.stages, m = shape.micro_batches;
  std::int64_t group = std::min(p, m);
  while (m > p && m % group != 0 && m % group < p) ++group;
  return group;
}

std::int64_t chunk_group(ScheduleKind kind, const ScheduleShape& shape) {
  return folds(kind) ? 1 : kind == ScheduleKind::interleaved ? interleaved_group(shape) : shape.micro_batches;
}

std::int64_t warmup(ScheduleKind kind, const ScheduleShape& shape, StageId stage) {
  const std::int64_t behind = shape.stages - stage.value() - 1;
  const bool twice = kind == ScheduleKind::interleaved || shape.pairs;
  const std::int64_t ahead = (twice ? 2 : 1) * behind + (shape.chunks - 1) * interleaved_group(shape) + (shape.pairs ? 1 : 0);
  return std::min(shape.micro_batches * shape.chunks, ahead);
}

std::size_t first_pair(ScheduleKind kind, const ScheduleShape& shape, StageId stage) {
  if (kind != ScheduleKind::dualpipe_v) return static_cast<std::size_t>(warmup(kind, shape, stage));
  const std::int64_t behind = shape.stages - stage.value() - 1;
  return static_cast<std::size_t>(2 * shape.stages + 3 * behind + (behind == 0 ? 2 : 0));
}

bool has_exchanges(ScheduleKind kind, const ScheduleShape& shape) {
  return kind == ScheduleKind::interleaved && shape.exchanges && interleaved_group(shape) <= shape.stages;
}

bool reduces_beside_backward(const ParallelSpec& parallel, StageId stage) {
  return parallel.overlap_grad_reduce && (stage.value() == 0 || has_chunks(parallel.schedule));
}

Actions fixed_order(ScheduleKind kind, const ScheduleShape& shape, StageId stage) {
  check(kind, shape, stage);
  const std::int64_t m = shape.micro_batches, before = stage.value(), behind = shape.stages - before - 1;
  // A closed switch: a new ScheduleKind does not compile here (-Werror=switch) until it has its order.
  switch (kind) {
    case ScheduleKind::gpipe: return alternate(shape, m, m);
    case ScheduleKind::one_f_one_b: return alternate(shape, m, warmup(kind, shape, stage));
    case ScheduleKind::interleaved: return alternate(shape, interleaved_group(shape), warmup(kind, shape, stage));
    case ScheduleKind::breadth_first: return alternate(shape, m, m * shape.chunks);
    case ScheduleKind::zb_h1: return with_weights(alternate(shape, m, behind), before);
    case ScheduleKind::zb_h2: return with_weights(alternate(shape, m, 2 * behind), 2 * before);
    case ScheduleKind::dualpipe_v: return dualpipe_v(shape, stage);
    case ScheduleKind::zb_v: return zb_v(shape, stage);
    case ScheduleKind::v_half:
    case ScheduleKind::v_min: return std::move(controllable_memory(kind, shape)[stage.index()]);
  }
  throw ContractError("unknown schedule");
}

namespace {

Orders fixed_orders(ScheduleKind kind, const ScheduleShape& shape) {
  if (kind == ScheduleKind::v_half || kind == ScheduleKind::v_min) {
    check(kind, shape, StageId(0));
    return controllable_memory(kind, shape);
  }
  Orders orders;
  for (std::int32_t s = 0; s < shape.stages; ++s) orders.push_back(fixed_order(kind, shape, StageId(s)));
  return orders;
}

}  // namespace

std::optional<Orders> automatic_orders(ScheduleKind kind, const ScheduleShape& shape) {
  const bool zero_bubble = kind == ScheduleKind::zb_h1 || kind == ScheduleKind::zb_h2;
  if (!zero_bubble || shape.stages == 1 || !passes_differ(shape)) return std::nullopt;
  // Stages of 1F1B are one forward apart, those of twice its warm-up two.
  const std::int64_t ahead = kind == ScheduleKind::zb_h1 ? 1 : 2;
  return fill_gaps(shape, ahead * shape.stages, ahead, fixed_orders(kind, shape));
}

Orders make_orders(ScheduleKind kind, const ScheduleShape& shape) {
  if (auto orders = automatic_orders(kind, shape)) return std::move(*orders);
  return fixed_orders(kind, shape);
}

Actions make_schedule(ScheduleKind kind, const ScheduleShape& shape, StageId stage) {
  check(kind, shape, stage);
  if (auto orders = automatic_orders(kind, shape)) return std::move((*orders)[stage.index()]);
  return fixed_order(kind, shape, stage);
}

}  // namespace tandem
