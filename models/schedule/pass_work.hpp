#pragma once
// What the passes of a plan's stages are about to take: the costs that an automatic schedule is made for.
//
// The order of passes is part of the plan's task graph, which knows no device. So work is weighed on a nominal accelerator: it
// decides which pass goes first and never how long one takes.

#include <cstdint>
#include <vector>

#include "models/schedule/schedule.hpp"

namespace tandem {

/// Of one micro-batch on one stage.
struct PassWork {
  std::int64_t forward = 0, backward = 0, weight = 0;  ///< in bytes that memory moves meanwhile
  std::int64_t held = 0, deferred = 0;                 ///< bytes kept until the backward pass, and from there to the weights'
  std::int64_t transfer = 0;                           ///< of what is sent to a neighbour, in bytes that memory moves meanwhile
};

/// Of one instance of `t`, in bytes that memory moves meanwhile. An operation takes its bytes and then its matrix products, at 150
/// FLOPs a byte (an A100's 312 TFLOP/s over 2.04 TB/s); a collective eight times its payload, all-reduce twice that (memory over
/// NVLink: 2.04 TB/s to 0.3, an H100's 3.35 to 0.45); a send 75 times (over a NIC of its own: 2.04 TB/s to 0.025, 3.35 to 0.05).
std::int64_t nominal_work(const Template& t);

/// Bytes of a slot by its name; 0 where the template has none.
std::int64_t slot_bytes(const Template& t, std::string_view name);

/// The same relative to each other in 32 steps, so that small changes of a plan leave its graph alone: times to the longest pass
/// of all stages, memory to the larger of a stage's two. None is below 1. Transfers take what the longest does.
ScheduleShape with_costs(ScheduleShape shape, const std::vector<PassWork>& stages);

/// The shape of the schedule that `lower` gives `plan`; costs are there where the schedule reads them.
ScheduleShape schedule_shape(const Plan& plan);

/// Lowers `plan` with the orders of another shape, which has its stages, micro-batches and chunks.
TaskGraph lower(const Plan& plan, const ScheduleShape& shape);

}  // namespace tandem
