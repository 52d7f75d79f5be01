#pragma once
// The modules that a stack can compute again by name.

#include <set>
#include <string>

namespace tandem {

struct Plan;

/// Values of training.recompute_modules for which the stack of a completed plan has an option at its date. Empty if the file of the
/// stack names none. Throws ConfigError for a stack that cannot be read.
std::set<std::string> stack_modules(const Plan& plan);

}  // namespace tandem
