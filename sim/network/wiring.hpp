#pragma once
// Every rank's communications laid over the topology: who takes part, which links are crossed how often. Built whole,
// for all ranks, so that symmetry can be seen rather than assumed.

#include <array>
#include <cstdint>
#include <vector>

#include "sim/network/catalogue.hpp"
#include "sim/network/fair_share.hpp"
#include "sim/network/scene.hpp"

namespace tandem::sim {

/// One message over one wire: two chains at most (one, unless the library pipelines its tiers), each running its
/// segments in turn. Ends `tail` after the last byte of the later chain.
struct Recipe {
  std::uint32_t message = 0;
  std::array<std::vector<Segment>, 2> chains;  ///< Segment::uses indexes Wire::uses
  Duration tail;                               ///< latencies and the library's overhead
};

/// A concrete group of ranks, or a sender and its receiver, on one port.
struct Wire {
  std::uint32_t port = 0;
  std::vector<Rank> members;
  bool directed = false;                   ///< members are a sender and its receiver
  std::vector<std::vector<LinkUse>> uses;  ///< ascending link
  std::vector<Recipe> recipes;             ///< ascending message
};

struct Wiring {
  std::vector<Wire> wires;
  /// By 2 * port + receiver, then rank: index into wires or -1.
  std::vector<std::vector<std::int32_t>> wire_of;
  std::vector<Capacity> links;  ///< the topology's, then processors and nodes where ranks share them
  bool shared_cores = false;    ///< computation goes through the core port
};

/// Work of a computation that takes `alone` on an idle processor, on links of a core port.
Work core_work(Duration alone);

/// One wire by itself: `members` carry `message` over `links` (the topology's, as in Wiring).
Wire lay_alone(const Scene& scene, const Message& message, std::vector<Rank> members, const std::vector<Capacity>& links);
/// Capacities of the topology's links.
std::vector<Capacity> capacities(const Topology& topology);

/// Throws ContractError when a stage receives what its peer does not send.
Wiring make_wiring(const Scene& scene, const Catalogue& catalogue);

}  // namespace tandem::sim
