#pragma once
// How roles of one table of slots go through their templates: which of these have patterns, which tasks follow each other without
// anybody else having a say, and where a record keeps their times.

#include <cstdint>
#include <vector>

#include "sim/engine/pattern.hpp"

namespace tandem::sim {

/// A task as a role plays it. Tasks on one lane that wait for nobody but the one before make a run: one time says how all went.
struct Step {
  std::int64_t duration = 0;    ///< ps; meaningful when exchange < 0
  std::int64_t after = 0;       ///< ps; its end after that of its run's first task
  std::int64_t total = 0;       ///< ps; end of the run that begins here after the end of this task
  std::int64_t slack = 0;       ///< ps; how much later than its start the host may issue this task for the run to go on without a stop
  std::int32_t exchange = -1;   ///< which of its role's exchanges
  std::uint32_t in_runs = 0;    ///< place of its run's time among those of an instance that is played in runs
  std::uint32_t singly = 0;     ///< place of its time in one played task by task
  std::uint16_t tasks = 1;      ///< of the run that begins here, on the lane
  std::uint16_t last = 0;       ///< the last of them
  std::uint32_t issued = 1;     ///< host operations of its instance, up to and with its own
};

struct Course {
  std::vector<StretchId> stretches;  ///< by template; -1: without a pattern
  std::vector<Step> steps;           ///< by slot
  /// By template: times of an instance.
  std::vector<std::uint32_t> in_runs, singly;
  bool runs = true;                  ///< false: every task is played by itself

  /// Times that an itinerary's instances without patterns need at most, when the runs of `parted` of them are parted on the way.
  std::size_t times(const Itinerary& itinerary, std::size_t parted) const;
};

/// An exchange has four times: its end, when its role was ready, when the last party had arrived and when the first. Any other task has
/// its end.
inline constexpr std::uint32_t kExchangeTimes = 4;

/// `launch`: what the host takes for an operation, in ps.
Course make_course(const std::vector<LaneTemplate>& templates, const std::vector<Slot>& slots, std::vector<StretchId> stretches,
                   std::int64_t launch);

}  // namespace tandem::sim
