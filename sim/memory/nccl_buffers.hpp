#pragma once
// What NCCL's communicators hold on a device beside the framework's allocator: the buffers of their connections.

#include <cstdint>
#include <vector>

#include "models/plan/stack_facts.hpp"
#include "sim/nccl/nccl.hpp"
#include "sim/network/communications.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// A communicator, by what its connections depend on.
struct NcclGroup {
  std::int64_t here = 1;      ///< ranks on a node
  std::int64_t nodes = 1;
  std::int64_t channels = 1;  ///< that NCCL's search finds
};

/// Of one rank, on average over those of a node. Every channel has a ring and, before Hopper's days, trees: until 2.22 (June 2024) a
/// communicator connected all it might use when it was made, since then what it uses (src/init.cc, runtimeConn), and of that only
/// rings are counted here. Buffers of NVLS and of sends and receives beyond a pair's ring are left out.
Bytes nccl_buffers(const NcclGroup& group, NcclArchitecture architecture);

/// Of all communicators of `rank`: those that its framework makes, as far as that is known, one for every other set of ranks in which its
/// stage's tasks communicate, and one for each neighbour of the pipeline (PyTorch makes one of two ranks for sends and receives).
/// Nothing where the library is not NCCL.
Bytes communicator_buffers(const Setup& setup, const Communications& communications, Rank rank,
                           const std::vector<Communicators>& of_stack);

}  // namespace tandem::sim
