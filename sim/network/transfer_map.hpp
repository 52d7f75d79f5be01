#pragma once
// Maps every rank's communications to the topology: who takes part, and how often each link is crossed. It is built for
// all ranks, so that symmetry is found rather than assumed.

#include <vector>

#include "sim/network/communications.hpp"
#include "sim/network/fair_share.hpp"
#include "sim/network/setup.hpp"
#include "sim/network/transfer.hpp"

namespace tandem::sim {

/// Plans one transfer by itself: `members` carry `message` over `links`, the topology's.
Transfer plan_alone(const Setup& setup, const Message& message, std::vector<Rank> members, const LinkCapacities& links);
/// Capacities of the topology's links.
LinkCapacities capacities(const Topology& topology);

/// Throws InfeasibleError if the plan sets a hierarchical algorithm for a group with unequal numbers of ranks on its nodes.
TransferMap make_transfer_map(const Setup& setup, const Communications& communications);

}  // namespace tandem::sim
