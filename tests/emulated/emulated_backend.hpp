#pragma once
// The CUDA backend's works performed on the host: the same kernels and products with the same arguments, block by block.

#include <memory>

#include "exec/backend/backend.hpp"

namespace tandem::tests {

/// Memory is the host's, a call returns when its work is done.
std::unique_ptr<exec::Backend> make_emulated_backend();

}  // namespace tandem::tests
