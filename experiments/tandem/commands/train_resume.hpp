#pragma once
// What `train --resume` takes over from the run that was saved, and what it says about it.

#include <cstdint>
#include <optional>
#include <string>

#include "exec/checkpoint/checkpoint.hpp"
#include "models/plan/plan.hpp"

namespace tandem::program {

/// What a command says of the learning rate's schedule and of the text, and what it names for messages.
struct ResumeOptions {
  std::string resume, data;          ///< paths; resume is empty where nothing is resumed
  std::int64_t schedule_steps = 0;   ///< --schedule-steps; 0: not given
  bool evaluates = false;            ///< --eval-every is given
  bool other_eval_data = false;      ///< --eval-data, too
};

/// The checkpoint that is resumed, once `plan` was found to go on from it with a step left; nothing where none is. Throws
/// ConfigError.
std::optional<exec::Checkpoint> open_checkpoint(const std::string& path, const Plan& plan);

/// Gives the plan the end of the learning rate's decay that the command asks for; else, where the plan says none, that of the run
/// that was saved. Logs what is taken over, and in one line the hyper-parameters that are others than in the saved run.
void settle_schedule(Plan& plan, const ResumeOptions& options, const std::optional<exec::Checkpoint>& resumed);

/// Share of the text, at its end, that is not trained on: by the command, else as in the saved run. Logs what is taken over or
/// unknown.
double held_out(const ResumeOptions& options, const std::optional<exec::Checkpoint>& resumed);

}  // namespace tandem::program
