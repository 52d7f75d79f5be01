#pragma once
// Runs: consecutive tasks of a lane of which each waits only for the one before. One table serves all roles with equal slots. It
// says which templates have patterns, which tasks make a run, and where a record keeps their times.

#include <cstdint>
#include <vector>

#include "sim/engine/pattern.hpp"

namespace tandem::sim {

/// A task of a role, and the run that begins with it. A run has one stored time.
struct RunTask {
  std::int64_t duration = 0;    ///< ps; meaningful when exchange < 0
  std::int64_t after = 0;       ///< ps from the end of its run's first task to its own end
  std::int64_t total = 0;       ///< ps from the end of this task to the end of the run that begins here
  std::int64_t slack = 0;       ///< ps after its start by which the host may issue this task without delaying the rest of the run
  std::int32_t exchange = -1;   ///< index into its role's exchanges; -1: none
  std::uint32_t in_runs = 0;    ///< index of its run's time in an instance that is simulated in runs
  std::uint32_t singly = 0;     ///< index of its time in an instance that is simulated task by task
  std::uint16_t tasks = 1;      ///< number of tasks in the run that begins here
  std::uint16_t last = 0;       ///< last task of this run
  std::uint32_t issued = 1;     ///< host operations of its instance up to this task, its own included
  std::uint8_t lane = 0;
};

struct RunTable {
  std::vector<TimedTemplateId> timed_templates;  ///< by template; -1: without a pattern
  std::vector<RunTask> steps;                    ///< by slot
  /// By template: number of times that an instance needs.
  std::vector<std::uint32_t> in_runs, singly;
  bool runs = true;  ///< false: every task is simulated by itself

  /// Upper bound on the number of times of a program's instances without patterns, if the runs of `parted` instances are split.
  std::size_t times(const LaneProgram& lane_program, std::size_t parted) const;
  /// Number of times of all its instances if simulated task by task.
  std::size_t times_singly(const LaneProgram& lane_program) const;
};

/// An exchange has four times: its end, when its role was ready, when the last party arrived, and when the first did. Other tasks
/// have only their end.
inline constexpr std::uint32_t kExchangeTimes = 4;

/// `launch`: host time to issue one operation, in ps.
RunTable make_run_table(const std::vector<LaneTemplate>& templates, const std::vector<Slot>& slots,
                        std::vector<TimedTemplateId> timed_templates, std::int64_t launch);

}  // namespace tandem::sim
