#pragma once
// A note on the host's memory where activations wait in it.

#include <string>

#include "sim/network/setup.hpp"

namespace tandem::sim {

/// "offloaded tensors take 12.5 GiB of a host's memory for each of its 8 ranks at most, 100 GiB in all; no preset says how much a
/// host has". Empty if no activations are offloaded.
std::string host_memory_note(const Setup& setup);

}  // namespace tandem::sim
