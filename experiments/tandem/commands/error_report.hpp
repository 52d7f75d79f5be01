#pragma once
// What becomes of an error: lines on stderr and an exit code.

#include <exception>

#include "experiments/tandem/base/exit_code.hpp"

namespace tandem::program {

/// Prints what was thrown and returns its exit code. What is no error of ours, such as CLI11's, is thrown again.
ExitCode tell_error(const std::exception_ptr& error);
/// The code alone.
ExitCode exit_code_of(const std::exception_ptr& error);

}  // namespace tandem::program
