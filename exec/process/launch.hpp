#pragma once
// What a launcher says to the processes that it starts, in their environment.

#include <functional>
#include <optional>
#include <string>

#include "models/base/error.hpp"

namespace tandem::exec {

/// Variables that are missing, unreadable, or contradict each other.
class LaunchError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

/// A variable's value; nothing where it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment process_environment();

struct LaunchSpec {
  std::string launcher;  ///< "torchrun", "Slurm", "Open MPI"
  int process = 0, processes = 1;
  std::string address;   ///< of process 0
  int port = 0;          ///< where process 0 waits for the others
};

/// From torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), else Slurm's (SLURM_PROCID, SLURM_NTASKS,
/// SLURM_JOB_NODELIST), else Open MPI's. `port`: as the command line has it, or 0: MASTER_PORT, or the next one where torchrun's agent
/// holds that; of a Slurm job without it, one of its number. Throws LaunchError with all problems.
LaunchSpec launch_from_environment(const Environment& environment, int port);

/// The number that the launcher gave this process, as far as it can be read: for who speaks before processes know each other.
std::optional<int> process_number(const Environment& environment);

/// Throws LaunchError where a launcher started several processes and MPI knows one alone.
void require_mpi_started(const Environment& environment, int processes);

}  // namespace tandem::exec
