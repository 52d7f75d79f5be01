#pragma once
// Passes of a pipeline schedule and what their order depends on. models/schedule/schedule.hpp has the orders and the notation.

#include <cstdint>
#include <vector>

#include "models/graph/task_graph.hpp"

namespace tandem {

/// One pass of one micro-batch through one chunk of one stage.
struct Action {
  /// forward; backward (the whole pass, or its input-gradient half in schedules that split
  /// it); weight (the weight-gradient half for the same micro-batch and chunk).
  Phase phase = Phase::forward;
  std::int32_t micro_batch = 0;
  std::int32_t chunk = 0;  ///< chunk c of stage s is part c * stages + s of the model; folded: chunk 1 is part 2 * stages - 1 - s
  bool whole = false;      ///< dualpipe-v: a backward pass with both halves, so no weight action follows; unused in transfers
  bool operator==(const Action&) const = default;
};

/// Times and memory of one micro-batch's passes on a stage, relative to other stages'.
struct PassCosts {
  std::int32_t forward = 1, backward = 1, weight = 1;  ///< times: tF, tB, tW
  std::int32_t held = 1;      ///< memory, from a micro-batch's forward to its backward
  std::int32_t deferred = 1;  ///< memory, from a micro-batch's backward to its weight pass
};

struct ScheduleShape {
  std::int64_t stages = 1;
  std::int64_t micro_batches = 1;
  std::int64_t chunks = 1;  ///< chunks of a stage; above 1 only for interleaved and breadth-first, and in a V (2)
  std::vector<PassCosts> costs = {};  ///< by stage; only schedules that split backward passes read them; empty: all equal
  std::int32_t transfer = 0;          ///< time of a transfer between stages, in units of `costs`
  bool steps_overlap = false;         ///< a stage starts its next step without waiting for other stages
  bool exchanges = false;             ///< interleaved: sends and receives between two passes are one exchange, see make_events
  bool pairs = false;                 ///< 1F1B, interleaved, dualpipe-v: a forward and a backward pass run at the same time
  bool folded = false;                ///< chunks lie in a V (`folds` in models/plan/schedule_kind.hpp)
};

/// By stage: its actions, in order.
using Orders = std::vector<std::vector<Action>>;

}  // namespace tandem
