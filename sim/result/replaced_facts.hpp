#pragma once
// Facts of presets and calibrations that no time of a step depends on. A processor's measured table or the collective library's own
// figures stand in for them, or nothing goes over the network.

#include <string_view>

#include "sim/network/setup.hpp"

namespace tandem::sim {

/// Judges by the step's own operations: a table replaces the facts of computations only if it has every computation of the step,
/// and those of communications only if it has every communication. NCCL's latencies replace that of a hop inside nodes if the step
/// has only reductions and gathers, whose algorithm NCCL chooses. On one node nothing depends on the network. Only the constructor
/// reads `setup`.
class ReplacedFacts {
 public:
  explicit ReplacedFacts(const Setup& setup);

  /// `fact` is "FILE: FIELD" or "FILE: FIELD (NOTE)", as FactReader writes it. True if no time of the step depends on it. Facts that
  /// also give memory (memory_bytes) or utilisation (peak_flops_per_s) are never replaced.
  bool hold(std::string_view fact) const;

 private:
  bool computations_ = false, communications_ = false, overlap_ = false;
  bool own_latencies_, one_node_;
};

}  // namespace tandem::sim
