#pragma once
// Memory of a stage's ranks beside their tensors: the device's runtime, libraries' workspaces and communicators' buffers.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "models/lowering/stage/stage_groups.hpp"
#include "models/plan/plan_words.hpp"
#include "sim/cost/cost_model.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

class RuntimeMemory {
 public:
  /// References outlive the object.
  RuntimeMemory(const Topology& topology, const CostModel& cost) : topology_(topology), cost_(cost) {}

  /// Returns the bytes by stage. The plan must be one that recurrences cover: its groups follow from its degrees.
  const std::vector<Bytes>& of(const Plan& plan, bool tied);

 private:
  std::vector<Bytes> read(const Plan& plan, bool tied) const;

  const Topology& topology_;
  const CostModel& cost_;
  std::unordered_map<std::vector<std::int64_t>, std::vector<Bytes>, WordsHash> known_;
  std::vector<std::int64_t> key_;  // scratch
};

}  // namespace tandem::sim
