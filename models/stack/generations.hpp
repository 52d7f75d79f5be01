#pragma once
// The device generations that stack files name.

#include <set>
#include <string>

namespace tandem {

/// Every generation in a stack file's `default_on`, or in a condition on `device.generation`. Throws ConfigError for a file that
/// cannot be read.
std::set<std::string> stack_generations();

}  // namespace tandem
