#pragma once
// What a device's communication library adds to the links.

#include <optional>

#include "models/base/units.hpp"
#include "sim/nccl/nccl.hpp"

namespace tandem::sim {

/// What the communication library makes of the links: fitted or measured, neutral where nothing is known.
struct CommFit {
  std::optional<NcclArchitecture> nccl;  ///< the library is NCCL: it picks algorithm and protocol, and its latencies hold
  Duration overhead;          ///< once per collective or send, beside its steps
  Duration in_step_overhead;  ///< likewise, in a training step: ranks arrive at different times; none in a benchmark's loop
  double inside_share = 1;    ///< of a link's bandwidth inside a node that is reached
  double in_step_share = 1;   ///< of inside_share, in a training step: ranks arrive at different times; 1 in a benchmark's loop
  /// Of a ring's rate inside a node that reductions in the switch reach; nothing: as the library plans.
  std::optional<double> in_switch_share;
  std::optional<Bandwidth> ring_copy;  ///< at which a ring's last step copies its part to its place; nothing: in no time
  double across_share = 1;    ///< of a link's bandwidth between nodes
  double in_step_across_share = 1;  ///< of across_share, likewise in a training step
  double shared_nic_share = 1;  ///< of that, in groups of some but not all devices of nodes whose devices share NICs
  double compute_slowdown = 0;  ///< of the memory's time for what collectives move beside a computation, added to it
  double chunked_exposed = 1; ///< of a collective's time that stays when it runs in pieces beside a product
};

}  // namespace tandem::sim
