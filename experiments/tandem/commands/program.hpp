#pragma once
// The `tandem` program: command line and error handling.

#include "experiments/tandem/base/exit_code.hpp"

namespace tandem::program {

/// Parses the command line, runs a subcommand and reports its errors on stderr. Data goes to stdout.
ExitCode run(int argc, const char* const* argv);

}  // namespace tandem::program
