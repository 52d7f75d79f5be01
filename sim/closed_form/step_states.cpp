// Optimizer states in host memory, and weights that a step gathers first.

#include <algorithm>
#include <cmath>

#include "models/lowering/templates/update_ops.hpp"
#include "sim/closed_form/step_estimate.hpp"
#include "sim/engine/overlap.hpp"

namespace tandem::sim::closed_form {

/// Chooses states as models/lowering/stage/stage_memory does. The first unit is copied once activations leave room for it. That
/// time is not followed: the estimate counts none of this copy behind the passes.
StepEstimate::HostStates StepEstimate::host_states(std::size_t s) const {
  const lowering::StageUnits stage = lowering::stage_units(regions_, stages_[s], lowering::sharding_of(in_.plan));
  const lowering::UpdateSpec spec = update_of({});
  const OptimizerSpec& o = spec.optimizer;
  const DType weights = spec.weights;
  const std::vector<lowering::OptimizerState> states = lowering::optimizer_states(o, weights, in_.shapes);
  const double planned = sharding_.offload.ratio * static_cast<double>(stage.shard_elements);
  HostStates h;
  std::int64_t before = -1, update = 0, in = 0, out = 0;
  for (const ShardUnit& u : stage.units) {
    if (static_cast<double>(h.elements) >= planned) break;
    const std::int64_t n = u.shard_elements();
    if (n != before) {
      update = compute(lowering::adamw_of(o, dtypes_, weights, n));
      in = out = 0;
      for (const lowering::OptimizerState& state : states) {
        in += compute(HostCopy{n, state.type, false});
        out += compute(HostCopy{n, state.type, true});
      }
    }
    if (h.elements == 0) h.arrival = in, h.first = update + out;
    else h.rest += in + update + out;
    h.together = std::max(h.together, n + std::max<std::int64_t>(0, before));
    h.elements += n;
    h.last_back = out;
    before = n;
  }
  return h;
}

/// When a stage's states are updated and its weights are gathered, if its norm is known at `normed`.
std::int64_t StepEstimate::updated(const Tail& t, std::int64_t normed) const {
  const lowering::UpdateSpec u = update_of(t);
  if (u.state_elements > 0)
    for (const Op& op : lowering::updates_of(u, dtypes_)) normed += compute(op);
  const std::int64_t end = normed + t.host.first + t.host.rest;
  return std::max(end, end - t.host.last_back + t.gather);
}

/// With overlap_param_gather a step begins with gathering the weights that the last step updated, the first layers' first. A layer
/// of the first micro-batch waits for its own.
void StepEstimate::fill_gathers() {
  std::vector<std::int64_t>& earliest = in_.scratch.times.earliest;
  earliest.clear();
  if (!sharding_.gathers_next || sharding_.zero_stage == 0 || d_ == 1) return;
  earliest.assign(static_cast<std::size_t>(p_ * v_), 0);
  for (std::int64_t s = 0; s < p_; ++s) gathered_first_ = std::max(gathered_first_, gather_first(s));
}

/// When a stage has all of its weights, in ps. Also sets PassTimes::earliest of its chunks.
std::int64_t StepEstimate::gather_first(std::int64_t s) {
  const lowering::StageUnits& stage = parts_of(s).units;
  std::vector<std::int64_t>& earliest = in_.scratch.times.earliest;
  std::int64_t arrived = 0, moves = 0;
  for (std::size_t u = stage.units.size(); u-- > 0;) {
    const ShardUnit& unit = stage.units[u];
    if (unit.shards <= 1) continue;
    Unit sent{unit.elements};
    sent.replication = unit.replication;
    const std::int64_t time = alone(weight_gather(sent), copies(s, unit.replication));
    const double share = memory_share(weight_gather(sent), time, in_.topology.device().memory_bandwidth);
    moves += std::llround(share * static_cast<double>(time));
    arrived += time;
    const lowering::UnitRegions& range = stage.unit_regions[u];
    for (std::int32_t i = range.first; i < range.first + range.count; ++i) {
      const lowering::RegionPlace& r = stage.regions[static_cast<std::size_t>(i)];
      std::int64_t& end = earliest[static_cast<std::size_t>(s * v_ + r.chunk)];
      end = std::max(end, arrived + forward_from(s, r));
    }
  }
  gather_memory_ = std::max(gather_memory_, moves);
  return arrived;
}

/// Time of a chunk's forward pass from a region's layer to its end.
std::int64_t StepEstimate::forward_from(std::int64_t s, const lowering::RegionPlace& r) const {
  using lowering::RegionKind;
  const lowering::ChunkPart& c = stages_[static_cast<std::size_t>(s)][static_cast<std::size_t>(r.chunk)];
  const auto forward = [](const BlockTimes& b) { return b.forward.ps; };
  const std::int64_t head = c.last ? in_.layer.head_forward[0].ps : 0;
  if (r.kind == RegionKind::head || r.kind == RegionKind::output || (!c.first && r.kind == RegionKind::word)) return head;
  const bool of_layer = r.kind == RegionKind::block || r.kind == RegionKind::experts;
  const std::int64_t l = of_layer ? layer_in_chunk(s, r) : 0;
  return head + layer_sum(c.first_layer + l, c.layers - l, forward) + (of_layer || !c.first ? 0 : in_.layer.embed_forward.ps);
}

}  // namespace tandem::sim::closed_form
