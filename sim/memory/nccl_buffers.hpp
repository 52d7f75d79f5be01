#pragma once
// Device memory of NCCL's communicators, outside the framework's allocator: the buffers of their connections.

#include <cstdint>
#include <vector>

#include "models/plan/stack_facts.hpp"
#include "sim/nccl/nccl.hpp"
#include "sim/network/communications.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// The facts of a communicator that its connections depend on.
struct NcclGroup {
  std::int64_t here = 1;      ///< ranks on a node
  std::int64_t nodes = 1;
  std::int64_t channels = 1;  ///< channels that NCCL's search finds
};

/// Bytes of one rank, averaged over the ranks of a node. Every channel has a ring and, before Hopper, trees. Until NCCL 2.22 (June
/// 2024) a communicator connected all that it might use; since then it connects what it uses (src/init.cc, runtimeConn), of which
/// only rings are counted. Buffers of NVLS, and of sends and receives beyond a pair's ring, are left out.
Bytes nccl_buffers(const NcclGroup& group, NcclArchitecture architecture);

/// Bytes of all communicators of `rank`. These are the known ones of its framework (`of_stack`), one for every other set of ranks
/// in which its stage's tasks communicate, and one for each pipeline neighbour (PyTorch makes one of two ranks for sends and
/// receives). 0 if the library is not NCCL or ranks share devices.
Bytes communicator_buffers(const Setup& setup, const Communications& communications, Rank rank,
                           const std::vector<Communicators>& of_stack);

}  // namespace tandem::sim
