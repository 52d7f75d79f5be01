#pragma once
// How a framework gets memory of a CUDA device.

#include <string>

namespace tandem {

/// Whether tensors come from an allocator that keeps segments and cuts them into blocks, as the file of a stack (models/stacks) says:
/// then holes between tensors count. False where it says nothing: one buffer is planned with the whole step in sight. Throws
/// ConfigError where the file does not say it as models/stacks/README.md describes.
bool stack_allocator_caches(const std::string& stack);

}  // namespace tandem
