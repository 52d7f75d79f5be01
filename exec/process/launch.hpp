#pragma once
// Reads the environment variables by which a launcher describes a process.

#include <functional>
#include <optional>
#include <string>

#include "models/base/error.hpp"

namespace tandem::exec {

/// Environment variables that are missing, unreadable or contradictory.
class LaunchError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

/// Returns a variable's value, or nullopt if it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment process_environment();

struct LaunchSpec {
  std::string launcher;  ///< "torchrun", "Slurm", "Open MPI"
  int process = 0, processes = 1;
  std::string address;   ///< host of process 0
  int port = 0;          ///< port at which process 0 waits for the others
};

/// Reads torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), else Slurm's (SLURM_PROCID, SLURM_NTASKS,
/// SLURM_JOB_NODELIST), else Open MPI's. `port`: from the command line; 0: MASTER_PORT, or the next port if torchrun's agent uses
/// it; else derived from Slurm's job id. Throws LaunchError with all problems.
LaunchSpec launch_from_environment(const Environment& environment, int port);

/// The process number that the launcher set, if it can be read. For messages printed before processes are connected.
std::optional<int> process_number(const Environment& environment);

/// Throws LaunchError if a launcher started several processes but MPI sees only one.
void require_mpi_started(const Environment& environment, int processes);

}  // namespace tandem::exec
