#include "sim/closed_form/closed_form.hpp"

#include <utility>

#include "models/planfile/stage_split.hpp"
#include "sim/closed_form/step_estimate.hpp"
#include "sim/cost/cuda_only.hpp"
#include "sim/memory/role_memory.hpp"

namespace tandem::sim {
namespace {

/// Whether recurrences cover every part of a plan.
bool known_layout(const Plan& plan, const lowering::Shapes& s, const Topology& topology) {
  const ParallelSpec& q = plan.parallel;
  const TrainingSpec& t = plan.training;
  const lowering::Sharding z = lowering::sharding_of(plan);
  const lowering::UpdateSpec u = lowering::update_spec(plan, s, z, 0, 0);
  const bool on_device = !s.on_host.kept() && !s.on_host.input;
  const bool model = on_device && s.decoder_layers == 0 && s.mtp == 0 && !s.adapters.here() && !folds(q);
  // Tensor ranks share a node, or have whole ones.
  const std::int64_t node = topology.devices_per_node();
  const bool order = q.rank_order == "tp-cp-ep-dp-pp" && topology.ranks_per_device() == 1 && !topology.device().synchronous &&
                     (node % s.tensor == 0 || s.tensor % node == 0);
  const bool whole = z.shards == q.data * s.context && (s.experts == 0 || z.expert_shards == expert_copies(plan));
  const bool captured = z.gathers_next && t.cuda_graphs != CudaGraphs::none;  // layers that wait for weights are not captured
  const bool exchange = z.zero_stage <= 1 && (z.zero_stage == 0 || whole) && !captured && !z.offload.parameters &&
                        s.dtypes.gradient_reduce == s.dtypes.gradients;
  const bool update = (u.optimizer.kind == OptimizerKind::adamw || u.optimizer.kind == OptimizerKind::sgd) && !u.post_validated;
  const Recompute again = t.recompute;
  const bool recomputed = again != Recompute::selective || t.recompute_layers == 0;
  // The tensors that recomputed layers keep for weight passes are not covered.
  const bool kept = !(s.defer_weights && again == Recompute::full);
  return model && order && exchange && update && recomputed && kept && !plan.cluster.perturbation.any();
}

/// Shares of a device's memory between which fragmentation may decide; recurrences ignore it. In an arena it always counts.
constexpr std::pair<double, double> kTight{0.8, 1.1};

}  // namespace

const char* name(Outside o) {
  constexpr const char* names[] = {"nothing", "layout", "host", "contended", "offloaded", "paired"};
  return names[static_cast<std::size_t>(o)];
}

Estimate ClosedForm::estimate(const Plan& plan, const Estimate& e, MemoryEstimate by) {
  require_cuda(plan, topology_, cost_.comm_fit());
  const double share = static_cast<double>(e.memory.count()) / static_cast<double>(topology_.device().usable_memory.count());
  const bool tight = share > kTight.first && share < kTight.second;
  const bool read_off = by == MemoryEstimate::allocator && (tight || one_arena(plan, topology_.device()));
  if ((e.outside == Outside::nothing && !read_off) || plan.cluster.perturbation.any()) return e;
  const ReadStep read = short_.of(plan, by);
  return {Duration::picoseconds(read.ps), read.memory, Outside::nothing, read.whole ? Way::events : Way::short_steps};
}

Estimate ClosedForm::quick(const Plan& plan) {
  const lowering::Shapes shapes = lowering::make_shapes(plan);
  if (!known_layout(plan, shapes, topology_)) return {{}, {}, Outside::layout};
  const LayerTimes& layer = layers_.of(plan);
  // Metrics are computed after a gradient was sent on; that transfer is not followed beside them.
  if (layer.metrics.ps > 0 && plan.parallel.pipeline > 1) return {{}, {}, Outside::layout};
  const PairTimes* pairs = pairs_of(plan);
  closed_form::StepEstimate step({plan, shapes, topology_, cost_, layer, pairs, links_, schedules_, runtime_, scratch_});
  return step.estimate();
}

Duration ClosedForm::short_time(const Plan& plan) {
  require_cuda(plan, topology_, cost_.comm_fit());
  return Duration::picoseconds(short_.time_of(plan).ps);
}

Duration ClosedForm::passes(const Plan& plan, const closed_form::ModulePasses& modules) {
  Plan bare = without_modules(plan);
  bare.parallel.zero_stage = bare.parallel.zero_group = 0;
  bare.parallel.overlap_param_gather = false;
  bare.parallel.offload = {};
  bare.training.optimizer.kind = OptimizerKind::adamw;  // passes have no update
  const lowering::Shapes shapes = lowering::make_shapes(bare);
  if (!known_layout(bare, shapes, topology_)) return {};
  const LayerTimes& layer = layers_.of(bare);
  const PairTimes* pairs = pairs_of(bare);
  closed_form::StepEstimate step({bare, shapes, topology_, cost_, layer, pairs, links_, schedules_, runtime_, scratch_});
  return Duration::picoseconds(step.passes(modules));
}

}  // namespace tandem::sim
