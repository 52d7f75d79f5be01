#pragma once
// Efficiencies and overheads of a device's communication library.

#include <optional>

#include "models/base/units.hpp"
#include "sim/nccl/nccl.hpp"

namespace tandem::sim {

/// Efficiencies and overheads of the communication library: fitted or measured, neutral if nothing is known. Shares are at most 1.
struct CommFit {
  std::optional<NcclArchitecture> nccl;  ///< set: the library is NCCL, which picks algorithm and protocol and has its own latencies
  Duration overhead;          ///< fixed time of a collective or send, beside its steps
  Duration in_step_overhead;  ///< added to it in a training step, where ranks arrive at different times; 0 in a benchmark's loop
  double inside_share = 1;    ///< reached share of a link's bandwidth inside a node
  double in_step_share = 1;   ///< factor on it in a training step, where ranks arrive at different times; 1 in a benchmark's loop
  /// Share of a ring's rate inside a node that reductions in the switch reach; nothing: as the library plans.
  std::optional<double> in_switch_share;
  std::optional<Bandwidth> ring_copy;  ///< rate at which a ring's last step copies its part to its place; nothing: no time
  double across_share = 1;    ///< reached share of a link's bandwidth between nodes
  double in_step_across_share = 1;  ///< factor on across_share in a training step
  double shared_nic_share = 1;  ///< factor on it, for groups of some but not all devices of nodes whose devices share NICs
  double compute_slowdown = 0;  ///< a computation takes longer by this x (bytes of overlapping collectives / memory bandwidth)
  double chunked_exposed = 1; ///< share of a collective's time that remains if it runs in pieces beside a product
};

}  // namespace tandem::sim
