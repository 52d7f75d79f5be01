#pragma once
// The settings that `train --resume` takes from the saved run, and messages about them.

#include <cstdint>
#include <optional>
#include <string>

#include "exec/checkpoint/checkpoint.hpp"
#include "models/graph/segments.hpp"
#include "models/plan/plan.hpp"

namespace tandem::program {

/// Command line options about resuming, the learning rate schedule and the text.
struct ResumeOptions {
  std::string resume, data;          ///< paths; resume is empty if nothing is resumed
  std::int64_t schedule_steps = 0;   ///< --schedule-steps; 0: not given
  bool evaluates = false;            ///< --eval-every is given
  bool other_eval_data = false;      ///< --eval-data, too
};

/// The checkpoint to resume, after checking that `plan` continues it and that a step or an evaluation is left; nullopt if none is
/// given. Throws ConfigError.
std::optional<exec::Checkpoint> open_checkpoint(const std::string& path, const Plan& plan, const EvaluationRhythm& evaluation);

/// Sets the end of the plan's learning rate decay: the command's, else the plan's, else the saved run's. Logs what is taken from
/// the saved run, and in one line the changed hyper-parameters.
void settle_schedule(Plan& plan, const ResumeOptions& options, const std::optional<exec::Checkpoint>& resumed);

/// Fraction at the end of the text that is not used for training: the command's, else the saved run's. Logs if it is taken from
/// there or unknown.
double held_out(const ResumeOptions& options, const std::optional<exec::Checkpoint>& resumed);

}  // namespace tandem::program
