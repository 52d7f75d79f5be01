#pragma once
// The automatic order of zero-bubble schedules, where passes take different times (arXiv 2401.10241, section 3).

#include <optional>

#include "models/schedule/schedule.hpp"

namespace tandem {

/// The order of a stage that no costs decide.
std::vector<Action> fixed_order(ScheduleKind kind, const ScheduleShape& shape, StageId stage);
/// Those of all stages that costs decide; nothing where they do not, or where the fixed ones are as good.
std::optional<Orders> automatic_orders(ScheduleKind kind, const ScheduleShape& shape);

/// Whether the passes of `shape` differ, or differ between stages: otherwise the handcrafted orders are what there is.
bool passes_differ(const ScheduleShape& shape);

/// `shape` with transfers three times as long. What transfers take belongs to the network, which no order knows: a NIC that several
/// devices share, or that a library reaches a third of. Orders have to be good for either.
ScheduleShape with_room(const ScheduleShape& shape);

/// Orders as they run by `costs`, of a schedule without chunks or with two in a V: an action starts when its stage is free and its input
/// is there; a transfer when what it moves is made and the receiver has used what came two earlier for the same chunk
/// (kReceiveBuffers). Without costs all passes take the same, and transfers nothing.
struct PlayedOrders {
  std::vector<std::vector<std::int64_t>> ends;     ///< by stage, in its order
  std::vector<std::vector<std::int64_t>> arrives;  ///< the same: start of the transfer that brings the input; -1: none does
  std::int64_t longest = 0;  ///< from a stage's first start to its last end, of the stage where that is longest
  std::int64_t end = 0;      ///< of the last action
};
/// Throws ContractError when stages wait for each other.
PlayedOrders play_orders(const ScheduleShape& shape, const Orders& orders);

/// Orders of all stages that hold no more than `micro_batches` of them before their backward pass would, or than `handcrafted`
/// does where that is more, and whose times are not above `handcrafted`'s, nor where transfers take nothing or as with_room has it;
/// nothing where none is found that is better.
///
/// A list scheduler: the stage that can act first does a backward pass if one is there, else a forward pass if one is there
/// and memory has room, else a weight pass, which fills the gap before what arrives next. It leaves the gap where it would be
/// late by more than a share of itself. With several such shares tried, that order is taken which ends first, or, where steps
/// overlap, whose longest stage is the shortest.
/// Forward passes start no more than `ahead` before the next stage's: what runs ahead of that only waits in buffers.
std::optional<Orders> fill_gaps(const ScheduleShape& shape, std::int64_t micro_batches, std::int64_t ahead,
                                const Orders& handcrafted);

/// What stages issue around `orders`. Every computation stands where it ends when played and every transfer where it starts: all
/// stages follow one order of everything, in which nothing comes before what it waits for. So none deadlocks, whatever the
/// real times, and even if everything waits for all that its stage issued in front of it. A stage's sends and receives stand in one
/// stream each, whichever way they go; one placed too early for how long transfers take holds up those behind it in every turn, and
/// the gaps grow with the micro-batches. So orders are played as with_room has it: too much room costs little.
std::vector<std::vector<ScheduleEvent>> timed_events(const ScheduleShape& shape, const Orders& orders);

}  // namespace tandem
