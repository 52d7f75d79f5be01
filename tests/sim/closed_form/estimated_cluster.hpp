#pragma once
// Clusters with what estimates plans on them.

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "models/plan/plan.hpp"
#include "sim/closed_form/closed_form.hpp"
#include "topology/topology.hpp"

namespace tandem::sim::test {

struct EstimatedCluster {
  explicit EstimatedCluster(const ClusterSpec& spec)
      : topology(make_topology(spec)), cost(make_cost_model(*topology)), form(*topology, *cost) {}
  std::shared_ptr<const Topology> topology;
  std::unique_ptr<CostModel> cost;
  ClosedForm form;
};

/// One for all plans on as many devices of a preset.
class EstimatedClusters {
 public:
  EstimatedCluster& of(const Plan& plan) {
    auto& cluster = clusters_[{plan.cluster.preset, plan.cluster.devices}];
    if (!cluster) cluster = std::make_unique<EstimatedCluster>(plan.cluster);
    return *cluster;
  }

 private:
  std::map<std::pair<std::string, std::int64_t>, std::unique_ptr<EstimatedCluster>> clusters_;
};

}  // namespace tandem::sim::test
