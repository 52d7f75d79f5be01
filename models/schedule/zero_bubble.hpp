#pragma once
// The automatic order of zero-bubble schedules, where passes take different times (arXiv 2401.10241, section 3).

#include <optional>

#include "models/schedule/schedule.hpp"

namespace tandem {

/// The handcrafted order of a stage, which no costs influence.
std::vector<Action> fixed_order(ScheduleKind kind, const ScheduleShape& shape, StageId stage);
/// Orders of all stages made for `shape.costs`. Nothing if costs do not matter, or if the handcrafted orders are as good.
std::optional<Orders> automatic_orders(ScheduleKind kind, const ScheduleShape& shape);

/// Whether the costs of the passes differ, on a stage or between stages. If not, the handcrafted orders are used.
bool passes_differ(const ScheduleShape& shape);

/// `shape` with transfers three times as long. Real transfer times depend on the network, which orders do not know:
/// devices may share a NIC, or a library may reach a third of its bandwidth. Orders have to be good for both.
ScheduleShape with_room(const ScheduleShape& shape);

/// Orders timed by `costs`, for one chunk per stage or two in a V. An action starts when its stage is free and
/// its input is there. A transfer starts when its data is ready and the receiver has used the one two earlier
/// for the same chunk (kReceiveBuffers). Without costs all passes take the same time, and transfers take none.
struct PlayedOrders {
  std::vector<std::vector<std::int64_t>> ends;     ///< end times, by stage, in the order of its actions
  std::vector<std::vector<std::int64_t>> arrives;  ///< start times of the transfers that bring inputs, likewise; -1: no transfer
  std::int64_t longest = 0;  ///< largest time of a stage from its first start to its last end
  std::int64_t end = 0;      ///< end of the last action
};
/// Throws ContractError when stages wait for each other.
PlayedOrders play_orders(const ScheduleShape& shape, const Orders& orders);

/// Orders of all stages that hold no more than `micro_batches` before their backward pass,
/// or than `handcrafted` if that is more. Their times do not exceed `handcrafted`'s, with
/// free transfers and with those of with_room. Nothing if no better order is found.
///
/// A list scheduler. The stage that can act first runs a backward pass if one is ready. Else it runs a forward
/// pass if one is ready and memory suffices, else a weight pass, which fills the gap before the next arrival.
/// If a weight pass would end too late by more than a share of its time, the gap stays. Several such shares
/// are tried; the order that ends first wins or, if steps overlap, the one with the shortest longest stage.
/// Forward passes start at most `ahead` before the next stage's: earlier ones would only wait in buffers.
std::optional<Orders> fill_gaps(const ScheduleShape& shape, std::int64_t micro_batches, std::int64_t ahead,
                                const Orders& handcrafted);

/// Events of all stages for `orders`. A computation stands at its end and a transfer at its start, as play_orders()
/// times them. All stages follow one global order in which nothing precedes what it waits for. So no order deadlocks,
/// whatever the real times, even if every event waits for all earlier ones of its stage. A stage's sends, and its
/// receives, are each one stream in both directions. A transfer placed too early holds up those behind it in every turn,
/// so gaps grow with the number of micro-batches. So orders are timed with with_room(): too much room costs little.
std::vector<std::vector<ScheduleEvent>> timed_events(const ScheduleShape& shape, const Orders& orders);

}  // namespace tandem
