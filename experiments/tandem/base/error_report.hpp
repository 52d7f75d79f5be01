#pragma once
// Reports errors: lines on stderr and an exit code.

#include <exception>
#include <string>

#include "experiments/tandem/base/exit_code.hpp"
#include "models/base/error.hpp"

namespace tandem::program {

/// Prints an error and returns its exit code. Rethrows errors that are not Tandem's, such as CLI11's.
ExitCode tell_error(const std::exception_ptr& error);
/// The exit code of an error, without printing.
ExitCode exit_code_of(const std::exception_ptr& error);
/// All problems of an error on one line, without the file, which the caller names.
std::string reasons(const ConfigError& error);

}  // namespace tandem::program
