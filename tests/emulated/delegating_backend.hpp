#pragma once
// A backend whose missing operations the CPU's kernels do, between copies: so every test of the runtime runs on it.

#include <memory>

#include "exec/backend/backend.hpp"

namespace tandem::tests {

/// Prints at the end of the program how many calls `inner` did itself, and how many the CPU did.
std::unique_ptr<exec::Backend> delegate_missing(std::unique_ptr<exec::Backend> inner);

}  // namespace tandem::tests
