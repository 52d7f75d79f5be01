#pragma once
// The `tandem` program: its command line, and what becomes of errors.

#include "experiments/tandem/base/exit_code.hpp"

namespace tandem::program {

/// Parses the command line, runs one subcommand and turns its errors into messages on stderr. Data goes to stdout.
ExitCode run(int argc, const char* const* argv);

}  // namespace tandem::program
