#pragma once
// Which links flows cross, found once for the simulations of many plans on one topology. Their groups of ranks recur.

#include <cstddef>
#include <vector>

#include "models/base/once_map.hpp"
#include "models/base/units.hpp"
#include "models/ops/collective.hpp"
#include "sim/network/colour_hash.hpp"
#include "sim/network/fair_share.hpp"

namespace tandem::sim {

/// Links that flows cross, and what their routes are like.
struct CrossedLinks {
  std::vector<LinkUse> uses;
  bool across = false;  ///< some flow leaves its node
  Duration latency;     ///< latency of the slowest route
};

/// Keys are hashes of members, flows and the choice of rails. Keys themselves would be as long as the flows of all-to-alls.
struct HashOfHash {
  std::size_t operator()(const colour::Hash& h) const { return h.a; }
};
using FootprintStore = OnceMap<colour::Hash, CrossedLinks, HashOfHash>;

}  // namespace tandem::sim
