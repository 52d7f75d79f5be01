#pragma once
// Runs a check or an action in all processes, and lets all fail alike.

#include <functional>

#include "exec/process/control.hpp"

namespace tandem::exec {

/// Calls `work` in every process. If it throws ConfigError in
/// any, every process throws the first such process' problems.
void together(Control& control, const std::function<void()>& work);

}  // namespace tandem::exec
