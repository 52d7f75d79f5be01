#pragma once
// Every rank's communications laid over the topology: who takes part, which links are crossed how often. Built whole,
// for all ranks, so that symmetry can be seen rather than assumed.

#include <vector>

#include "sim/network/communications.hpp"
#include "sim/network/fair_share.hpp"
#include "sim/network/setup.hpp"
#include "sim/network/transfer.hpp"

namespace tandem::sim {

/// One transfer by itself: `members` carry `message` over `links` (the topology's, as in TransferMap).
Transfer plan_alone(const Setup& setup, const Message& message, std::vector<Rank> members, const LinkCapacities& links);
/// Capacities of the topology's links.
LinkCapacities capacities(const Topology& topology);

/// Throws ContractError when a stage receives what its peer does not send.
TransferMap make_transfer_map(const Setup& setup, const Communications& communications);

}  // namespace tandem::sim
