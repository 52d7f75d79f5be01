#include "models/schedule.hpp"

#include <algorithm>

namespace tandem {
namespace {

std::vector<Action> one_f_one_b(const ScheduleShape& shape, std::int64_t stage) {
  const std::int64_t m = shape.micro_batches;
  const std::int64_t warmup = std::min(m, shape.stages - stage - 1);
  std::vector<Action> actions;
  actions.reserve(static_cast<std::size_t>(2 * m));
  const auto add = [&](Phase phase, std::int64_t micro_batch) {
    actions.push_back({phase, static_cast<std::int32_t>(micro_batch), 0});
  };
  for (std::int64_t i = 0; i < warmup; ++i) add(Phase::forward, i);
  for (std::int64_t i = warmup; i < m; ++i) {
    add(Phase::forward, i);
    add(Phase::backward, i - warmup);
  }
  for (std::int64_t i = m - warmup; i < m; ++i) add(Phase::backward, i);
  return actions;
}

/// Both halves ascend, so gradients are accumulated in the order of 1F1B.
std::vector<Action> gpipe(const ScheduleShape& shape) {
  std::vector<Action> actions;
  actions.reserve(static_cast<std::size_t>(2 * shape.micro_batches));
  for (const Phase phase : {Phase::forward, Phase::backward})
    for (std::int32_t i = 0; i < shape.micro_batches; ++i) actions.push_back({phase, i, 0});
  return actions;
}

}  // namespace

std::vector<Action> make_schedule(ScheduleKind kind, const ScheduleShape& shape, StageId stage) {
  // A closed switch: a new ScheduleKind does not compile here (-Werror=switch) until it has its order.
  switch (kind) {
    case ScheduleKind::one_f_one_b: return one_f_one_b(shape, stage.value());
    case ScheduleKind::gpipe: return gpipe(shape);
    case ScheduleKind::interleaved:
    case ScheduleKind::zb_h1:
    case ScheduleKind::zb_h2:
      if (shape.stages == 1) return one_f_one_b(shape, stage.value());  // one stage has no bubble to fill
      throw InfeasibleError({"", "parallel.schedule", "", "not implemented: only 1f1b and gpipe are lowered", "use \"1f1b\""});
  }
  throw ContractError("unknown schedule");
}

}  // namespace tandem
