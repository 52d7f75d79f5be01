#pragma once
// Options about processes that commands which run a plan share.

#include <CLI/CLI.hpp>

#include "experiments/tandem/training/processes.hpp"

namespace tandem::program {

/// Refuses options of several processes for a single one.
inline void require_processes(const LaunchOptions& launch, const CLI::Option& timeout, const CLI::Option& port) {
  if (timeout.count() > 0 && launch.launch == "threads") throw CLI::ValidationError("--timeout", "needs --launch mpi or env");
  if (port.count() > 0 && launch.launch != "env") throw CLI::ValidationError("--port", "needs --launch env");
}

}  // namespace tandem::program
