#pragma once
// The device generations that stack files name.

#include <set>
#include <string>

namespace tandem {

/// Every generation in a stack file's `default_on`, or in a condition on `device.generation`. Files that cannot be read have none, or
/// throw their ConfigError if `all` are asked for.
std::set<std::string> stack_generations(bool all = false);

}  // namespace tandem
