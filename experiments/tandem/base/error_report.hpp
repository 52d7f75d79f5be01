#pragma once
// Reports errors: lines on stderr and an exit code.

#include <exception>

#include "experiments/tandem/base/exit_code.hpp"

namespace tandem::program {

/// Prints an error and returns its exit code. Rethrows errors that are not Tandem's, such as CLI11's.
ExitCode tell_error(const std::exception_ptr& error);
/// The exit code of an error, without printing.
ExitCode exit_code_of(const std::exception_ptr& error);

}  // namespace tandem::program
