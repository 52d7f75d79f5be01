#pragma once
// The simulation of one plan of a request.

#include <memory>
#include <string>

#include "experiments/tandem/planning/candidates.hpp"
#include "models/plan/plan.hpp"
#include "reports/prediction/prediction.hpp"
#include "topology/topology.hpp"

namespace tandem::planning {

/// Bytes that all ranks that share a device need, on the device whose rank needs most.
std::int64_t needed_on_device(const Prediction& prediction, std::int64_t ranks_per_device);

struct Assessment {
  CandidatePlan candidate;
  std::string refusal;        ///< why there is no prediction; else empty
  Plan plan;
  Prediction prediction;
  std::shared_ptr<const Topology> topology;
  std::int64_t built_per_node = 0;  ///< devices that a whole node has, of which the job may use fewer
  std::int64_t devices_per_chip = 1;
  double first_step_share = 1;  ///< step time of a ramp-up's first batch over that of the full batch; 1 without a ramp-up

  double devices() const { return static_cast<double>(plan.cluster.devices); }
  std::int64_t nodes() const;               ///< that the job occupies; an NVLink rack is one
  /// Bytes of weights, master weights and moments in a checkpoint.
  double checkpoint_bytes() const;
  /// Notes of the prediction about the plan itself: rules of its stack, memory, launches.
  std::vector<std::string> notes() const;
  std::int64_t needed_bytes() const;      ///< device memory of all ranks that share a device
};

/// Simulates a plan. An impossible plan gets a refusal; ConfigError is thrown only if the input is no plan. `stack`: see --stack.
Assessment assess(const CandidatePlan& candidate, const std::string& stack);

/// Fills topology, `built_per_node` and `devices_per_chip` of an assessment that has its plan. Throws ConfigError.
void find_place(Assessment& assessment);

/// A note if only one of two plans uses measured products, else empty.
std::string measured_note(const Assessment& a, const Assessment& b);

/// The plan with its NICs' rate multiplied by `factor`. Throws ConfigError if nodes have no network, or there is no prediction.
CandidatePlan with_network(const Assessment& assessment, double factor);

}  // namespace tandem::planning
