#pragma once
// RCCL, AMD's port of NCCL: the same kinds of rings and trees, chosen by tables of its own (ROCm/rocm-systems,
// projects/rccl/src/graph/tuning.cc, commit 03a89144, and ROCm/rccl, src/rccl_wrap.cc, commit 00c78b70).

#include "sim/nccl/nccl_search.hpp"

namespace tandem::sim {

/// Whether the library on these devices is RCCL.
bool is_rccl(NcclArchitecture a);

/// Returns the pair with RCCL's least planned time. Between nodes the protocol then follows from the vector's size, where the device
/// has limits for it. Times are at the links' real rates. RCCL's tables also weigh what was measured to be slow: their latency of a
/// ring's step between nodes (320 us) and their rate of LL (0.08) are no times, so NCCL's step and the flags' share stand for them.
NcclChoice rccl_choice(const NcclTask& task, NcclArchitecture architecture);

/// Returns the fastest pair among those that RCCL may choose.
NcclChoice rccl_fastest(const NcclTask& task, NcclArchitecture architecture);

/// Half of the channels that RCCL opens on a node, and the rates that it plans for each.
NcclGraphs rccl_graphs(const NcclNode& node, NcclArchitecture architecture);

}  // namespace tandem::sim
