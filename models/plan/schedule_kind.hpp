#pragma once
// Pipeline schedules by name, and the stage of each part of the model. Their orders: models/schedule.

#include <cstdint>

namespace tandem {

enum class ScheduleKind : std::uint8_t {
  gpipe,
  one_f_one_b,
  interleaved,
  zb_h1,
  zb_h2,
  breadth_first,
  dualpipe_v,
  zb_v,
  v_half,
  v_min
};
/// Whether a stage's two chunks lie in a V: stage s of p holds parts s and 2p-1-s. The last stage passes data to itself.
constexpr bool folds(ScheduleKind k) {
  return k == ScheduleKind::dualpipe_v || k == ScheduleKind::zb_v || k == ScheduleKind::v_half || k == ScheduleKind::v_min;
}
/// Whether stages may hold several chunks of the model.
constexpr bool has_chunks(ScheduleKind k) { return k == ScheduleKind::interleaved || k == ScheduleKind::breadth_first || folds(k); }
/// Whether a backward pass may defer its weight gradients.
constexpr bool splits_backward(ScheduleKind k) { return k == ScheduleKind::zb_h1 || k == ScheduleKind::zb_h2 || folds(k); }
/// The stage, of `stages`, that holds part `part` of the model.
constexpr std::int64_t stage_of_part(ScheduleKind k, std::int64_t stages, std::int64_t part) {
  return folds(k) && part >= stages ? 2 * stages - 1 - part : part % stages;
}

}  // namespace tandem
