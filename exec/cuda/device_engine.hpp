#pragma once
// Copies and folds between ranks that share the device.

#include "exec/communicator/memory_engine.hpp"

namespace tandem::exec::cuda {

/// Every thread that calls has a stream of its own. Buffers must be ready before a call: no event is waited for.
MemoryEngine& device_engine();

}  // namespace tandem::exec::cuda
