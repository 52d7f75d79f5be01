#pragma once
// Runs: tasks that follow each other on one lane and wait for nothing else. One table serves all roles with equal slots. It says
// which templates have patterns, which tasks make a run, and where a record keeps their times.

#include <cstdint>
#include <vector>

#include "sim/engine/pattern.hpp"

namespace tandem::sim {

/// A task of a role, and the run that begins with it. One time is kept for a whole run.
struct RunTask {
  std::int64_t duration = 0;    ///< ps; meaningful when exchange < 0
  std::int64_t after = 0;       ///< ps; its end after that of its run's first task
  std::int64_t total = 0;       ///< ps; end of the run that begins here after the end of this task
  std::int64_t slack = 0;       ///< ps; how much later than its start the host may issue this task for the run to go on without a stop
  std::int32_t exchange = -1;   ///< which of its role's exchanges
  std::uint32_t in_runs = 0;    ///< place of its run's time among those of an instance that is simulated in runs
  std::uint32_t singly = 0;     ///< place of its time in one simulated task by task
  std::uint16_t tasks = 1;      ///< of the run that begins here, on the lane
  std::uint16_t last = 0;       ///< the last of them
  std::uint32_t issued = 1;     ///< host operations of its instance, up to and with its own
  std::uint8_t lane = 0;
};

struct RunTable {
  std::vector<TimedTemplateId> timed_templates;  ///< by template; -1: without a pattern
  std::vector<RunTask> steps;                    ///< by slot
  /// By template: times of an instance.
  std::vector<std::uint32_t> in_runs, singly;
  bool runs = true;  ///< false: every task is simulated by itself

  /// Times that a lane program's instances without patterns need at most, when the runs of `parted` of them are parted on the way.
  std::size_t times(const LaneProgram& lane_program, std::size_t parted) const;
  /// Times of all its instances, simulated task by task.
  std::size_t times_singly(const LaneProgram& lane_program) const;
};

/// An exchange has four times: its end, when its role was ready, when the last party had arrived and when the first. Any other task has
/// its end.
inline constexpr std::uint32_t kExchangeTimes = 4;

/// `launch`: what the host takes for an operation, in ps.
RunTable make_run_table(const std::vector<LaneTemplate>& templates, const std::vector<Slot>& slots,
                        std::vector<TimedTemplateId> timed_templates, std::int64_t launch);

}  // namespace tandem::sim
