#pragma once
// A training with ranks in several processes: they join, check that they agree, and only one prints.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "exec/process/world.hpp"
#include "experiments/tandem/base/exit_code.hpp"

namespace tandem::program {

/// Command line options about processes.
struct LaunchOptions {
  std::string launch = "threads";  ///< or mpi, env
  int port = 0;                    ///< 0: use the launcher's
  double timeout_s = 600;
};

/// Calls `train` with this process alone, or with all processes of a launcher. Then process 0 prints everything, including others'
/// errors, and all return its exit code. Throws LaunchError if the launcher's variables contradict each other.
ExitCode in_processes(const LaunchOptions& options, const std::function<ExitCode(exec::World&)>& train);

/// Calls `prepare` in every process. If it throws in any, all end with the error of the lowest one.
void prepare_together(exec::World& world, const std::function<void()>& prepare);

/// Throws ConfigError if a thing differs between processes. `things`: (name, plan as JSON or other text).
void require_same(exec::World& world, const std::vector<std::pair<std::string, std::string>>& things);

/// Distributes the plan's ranks over the processes. Throws LaunchError if there are more processes than ranks.
void place_ranks(exec::World& world, std::int64_t ranks, const std::string& plan);

}  // namespace tandem::program
