#pragma once
// Nominal costs of the passes of a plan's stages, for which an automatic schedule is made.
//
// The order of passes is part of the plan's task graph, which knows no device. So costs are
// for a nominal accelerator. They decide which pass goes first, never how long a pass takes.

#include <cstdint>
#include <vector>

#include "models/schedule/schedule.hpp"

namespace tandem {

/// Costs of the passes of one micro-batch on one stage.
struct PassWork {
  std::int64_t forward = 0, backward = 0, weight = 0;  ///< times, in bytes that device memory could move meanwhile
  std::int64_t held = 0, deferred = 0;                 ///< bytes stored until the backward pass; from there until the weight pass
  std::int64_t transfer = 0;                           ///< time to send to a neighbour stage, in bytes as above
};

/// Nominal time of one instance of `t`, in bytes that device memory could move meanwhile. An operation costs its bytes, then its
/// matrix products at 150 FLOPs a byte (A100: 312 TFLOP/s, 2.04 TB/s). A collective costs 8 x its payload, an all-reduce 16 x
/// (memory over NVLink: A100 2.04 TB/s to 0.3, H100 3.35 to 0.45). A send costs 75 x (over a NIC: 2.04 to 0.025, 3.35 to 0.05).
std::int64_t nominal_work(const Template& t);

/// Bytes of a slot by its name; 0 where the template has none.
std::int64_t slot_bytes(const Template& t, std::string_view name);

/// The stages' costs in 32 steps, so that small changes of a plan leave its graph alone. Times are relative to the longest
/// pass of any stage, memory to the larger of a stage's two. The least cost is 1. All transfers cost as the longest.
ScheduleShape with_costs(ScheduleShape shape, const std::vector<PassWork>& stages);

/// The shape of the schedule that `lower` gives `plan`, with costs if the schedule reads them.
ScheduleShape schedule_shape(const Plan& plan);

/// Lowers `plan` with the orders of another shape. The shape has the plan's stages, micro-batches and chunks.
TaskGraph lower(const Plan& plan, const ScheduleShape& shape);

}  // namespace tandem
