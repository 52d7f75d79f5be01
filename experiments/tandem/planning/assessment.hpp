#pragma once
// A plan of a request, simulated.

#include <memory>
#include <string>

#include "experiments/tandem/planning/candidates.hpp"
#include "models/plan/plan.hpp"
#include "reports/prediction/prediction.hpp"
#include "topology/topology.hpp"

namespace tandem::planning {

struct Assessment {
  CandidatePlan candidate;
  std::string refusal;        ///< why there is no prediction; else empty
  Plan plan;
  Prediction prediction;
  std::shared_ptr<const Topology> topology;
  double first_step_share = 1;  ///< step time of a ramp-up's first batch over that of the full batch; 1 without a ramp-up

  double devices() const { return static_cast<double>(plan.cluster.devices); }
  double nodes() const;
  /// Weights, master weights and moments as a checkpoint holds them, in bytes.
  double checkpoint_bytes() const;
  std::int64_t needed_bytes() const;      ///< of a device, by all ranks that share it
};

/// Simulates a plan. A plan that cannot be has a refusal; throws ConfigError where the input is no plan at all. `stack` as --stack.
Assessment assess(const CandidatePlan& candidate, const std::string& stack);

/// The plan with NICs of `factor` times their rate. Throws ConfigError where its nodes are not joined, or it has no prediction.
CandidatePlan with_network(const Assessment& assessment, double factor);

}  // namespace tandem::planning
