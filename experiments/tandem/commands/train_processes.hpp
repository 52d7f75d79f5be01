#pragma once
// A training whose ranks are in several processes: how they join, agree, and speak with one voice.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "exec/process/world.hpp"
#include "experiments/tandem/base/exit_code.hpp"

namespace tandem::program {

/// What the command line says of processes.
struct LaunchOptions {
  std::string launch = "threads";  ///< or mpi, env
  int port = 0;                    ///< 0: the launcher's
  double timeout_s = 600;
};

/// Calls `train` with this process alone, or with all that a launcher started. Then process 0 prints everything, errors of others too,
/// and all processes have its exit code. Throws LaunchError where the launcher's variables contradict each other.
ExitCode in_processes(const LaunchOptions& options, const std::function<ExitCode(exec::World&)>& train);

/// Calls `prepare` in every process. Where it throws in one, all end with the lowest process' error.
void prepare_together(exec::World& world, const std::function<void()>& prepare);

/// What must be the same in all processes, by what it is called: a plan as JSON, or a text. Throws ConfigError where it is not.
void require_same(exec::World& world, const std::vector<std::pair<std::string, std::string>>& things);

/// Gives the plan's ranks to the processes. Throws LaunchError where there are more processes.
void place_ranks(exec::World& world, std::int64_t ranks, const std::string& plan);

}  // namespace tandem::program
