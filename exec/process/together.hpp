#pragma once
// What all processes do alike, and what one of them may find wrong.

#include <functional>

#include "exec/process/control.hpp"

namespace tandem::exec {

/// Calls `work` in every process. Where it throws ConfigError in some, all throw the problems of the first of them.
void together(Control& control, const std::function<void()>& work);

}  // namespace tandem::exec
