#pragma once
// Copies and folds between ranks that share the device.

#include "exec/communicator/carrier.hpp"

namespace tandem::exec::cuda {

/// Every thread that calls has a stream of its own. Buffers must be ready before a call: no event is waited for.
Carrier& device_carrier();

}  // namespace tandem::exec::cuda
