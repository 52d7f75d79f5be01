#pragma once
// A note on the host's memory where activations wait in it.

#include <string>

#include "sim/network/setup.hpp"

namespace tandem::sim {

/// "offloaded tensors take at most 12.5 GiB of the host's memory for each rank: no preset says how much a host has". Empty if no
/// activations are offloaded.
std::string host_memory_note(const Setup& setup);

}  // namespace tandem::sim
