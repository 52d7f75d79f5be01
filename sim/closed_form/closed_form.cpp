#include "sim/closed_form/closed_form.hpp"

#include <algorithm>

#include "sim/closed_form/step_estimate.hpp"
#include "sim/cost/cuda_only.hpp"

namespace tandem::sim {
namespace {

/// Plans whose every part the closed form has.
bool known_layout(const Plan& plan, const Topology& topology) {
  const ParallelSpec& q = plan.parallel;
  const TrainingSpec& t = plan.training;
  const bool model = plan.model.moe.num_experts == 0 && plan.model.num_decoder_layers == 0 && q.context == 1 && q.expert == 1;
  const bool order = q.rank_order == "tp-cp-ep-dp-pp" && topology.ranks_per_device() == 1 && !topology.device().synchronous &&
                     topology.devices_per_node() % q.tensor == 0;
  const bool exchange = q.zero_stage <= 1 && (q.zero_group == 0 || q.zero_group == q.data) && !q.overlap_param_gather &&
                        !q.offload.optimizer && !q.offload.parameters && t.dtypes.gradient_reduce == t.dtypes.gradients;
  const bool update = (t.optimizer.kind == OptimizerKind::adamw || t.optimizer.kind == OptimizerKind::sgd) &&
                      q.optimizer_sync == OptimizerSync::global;
  const bool recomputed = t.recompute != Recompute::selective || t.recompute_layers == 0;
  // A stage that waits for its sends waits for receive buffers; where many passes run ahead those depend on where tensors lie.
  const bool buffers = q.overlap_p2p || q.schedule == ScheduleKind::one_f_one_b;
  const bool machine = !plan.cluster.perturbation.any();
  return model && order && exchange && update && recomputed && buffers && machine;
}

}  // namespace

const char* name(Outside o) {
  constexpr const char* names[] = {"nothing", "layout", "host", "contended"};
  return names[static_cast<std::size_t>(o)];
}

Estimate ClosedForm::estimate(const Plan& plan) {
  require_cuda(plan, topology_.device(), cost_.comm_fit());
  if (!known_layout(plan, topology_)) return {{}, {}, Outside::layout};
  const LayerTimes& layer = layers_.of(plan);
  // Metrics come after a gradient has been handed on, whose way is not followed beside them.
  if (layer.metrics.ps > 0 && plan.parallel.pipeline > 1) return {{}, {}, Outside::layout};
  return closed_form::StepEstimate({plan, topology_, cost_, layer, links_, schedules_, scratch_}).estimate();
}

}  // namespace tandem::sim
