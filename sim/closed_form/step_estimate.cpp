#include "sim/closed_form/step_estimate.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/lowering/stage/stage_chunks.hpp"
#include "models/lowering/stage/update_spec.hpp"
#include "models/lowering/templates/update_ops.hpp"
#include "sim/engine/overlap.hpp"

namespace tandem::sim::closed_form {
namespace {

/// The lowering's sharding. With one data rank every region is a unit of its own: nothing is reduced, so none waits for another.
lowering::Sharding sharding_of(const Plan& plan, std::int64_t data) {
  lowering::Sharding z = lowering::sharding_of(plan);
  if (data == 1) z.bucket_bytes = Bytes(0), z.first_chunk_only = false;
  return z;
}

/// Whether the reductions of two units take the same time.
bool alike(const Unit& a, const Unit& b) { return a.elements == b.elements && a.replication == b.replication; }

/// The kind of all layers; kLayerKinds if there are several.
std::size_t only_kind(const LayerKinds& kinds) {
  std::size_t only = kLayerKinds, count = 0;
  for (std::size_t k = 0; k < kLayerKinds; ++k)
    if (kinds.has(k)) only = k, ++count;
  return count == 1 ? only : kLayerKinds;
}

}  // namespace

StepEstimate::StepEstimate(const Parts& x)
    : in_(x),
      stages_(lowering::stage_chunks(in_.plan)),
      kind_(in_.plan.parallel.schedule),
      buckets_(gradient_buckets(in_.plan)),
      t_(in_.shapes.tensor),
      d_(in_.plan.parallel.data * in_.shapes.context),
      p_(static_cast<std::int64_t>(stages_.size())),
      v_(static_cast<std::int64_t>(stages_.front().size())),
      m_(in_.plan.micro_batches()),
      stride_(t_ * d_),
      with_experts_(in_.shapes.expert_ranks * in_.shapes.expert_tensor),
      kinds_(in_.shapes),
      only_kind_(only_kind(kinds_)),
      regions_(in_.layer.regions),
      sharding_(sharding_of(in_.plan, d_)),
      split_backward_(in_.shapes.defer_weights),
      tied_(in_.shapes.tied),
      uses_apart_(lowering::word_uses(stages_.front(), tied_).size() > 1 && lowering::word_uses_apart(in_.plan)),
      recompute_layers_(in_.plan.training.recompute == Recompute::full ? in_.plan.training.recompute_layers : -1),
      order_(m_ > 1 ? 1 : 0),
      dtypes_(in_.shapes.dtypes),
      shape_(lowering::shape_of(in_.plan, work())) {
  regions_.kinds = in_.shapes.kinds;
}

Estimate StepEstimate::estimate() {
  list_parts();
  fill_passes();
  fill_transfers();
  fill_gathers();
  const PassEnds& ends = in_.schedules.evaluate(kind_, shape_, in_.scratch.times);
  in_.scratch.passes = *std::max_element(ends.stage.begin(), ends.stage.end());
  std::vector<Tail> tails = all_tails(ends);
  Estimate e;
  e.step_time = Duration::picoseconds(update(tails));
  // As in sim/engine/simulate_step: a smaller slowdown, summed over all stages, is not counted.
  if (longer_ > e.step_time.ps() / kNoticed) {
    slowed_ = true;
    tails = all_tails(ends);
    e.step_time = Duration::picoseconds(update(tails));
  }
  e.memory = memory(tails);
  e.outside = outside(e.step_time, tails);
  e.least = v_ == 1;
  return e;
}

std::int64_t StepEstimate::passes(const ModulePasses& modules) {
  fill_passes(modules);
  fill_transfers();
  in_.scratch.times.earliest.clear();
  const PassEnds& ends = in_.schedules.evaluate(kind_, shape_, in_.scratch.times);
  return *std::max_element(ends.stage.begin(), ends.stage.end());
}

std::vector<StepEstimate::Tail> StepEstimate::all_tails(const PassEnds& ends) {
  std::vector<Tail> tails;
  tails.reserve(static_cast<std::size_t>(p_));
  std::int64_t late = 0;
  beside_ = disturbed_ = way_ = 0;
  for (std::int64_t s = p_; s-- > 0;) tails.push_back(tail(s, ends, late));
  std::reverse(tails.begin(), tails.end());
  return tails;
}

// ---- the pipeline ----

/// By stage: the work of passes, from which an automatic order is made; empty if backward passes are not split.
std::vector<PassWork> StepEstimate::work() const {
  std::vector<PassWork> stages;
  if (!split_backward_) return stages;
  for (const ChunkParts& chunks : stages_) {
    PassWork sum;
    for (const lowering::ChunkPart& c : chunks) {
      const std::int64_t again = recomputed(chunks, c);
      const KindCounts all = kinds_.among(c.first_layer, c.layers), twice = kinds_.among(c.first_layer, again);
      for (std::size_t k = 0; k < kLayerKinds; ++k) lowering::add_layers(sum, in_.layer.blocks[k].work, all[k], twice[k]);
      lowering::add_ends(sum, in_.layer.ends, c);
    }
    stages.push_back(sum);
  }
  return stages;
}

std::int64_t StepEstimate::recomputed(const ChunkParts& chunks, const lowering::ChunkPart& c) const {
  return recompute_layers_ < 0 ? 0 : lowering::among_first(chunks, c, recompute_layers_);
}

std::int64_t StepEstimate::recompute_pass(std::int64_t first, std::int64_t layers) const {
  return layer_sum(first, layers, [](const BlockTimes& b) { return b.recompute.ps; });
}

std::int64_t StepEstimate::backward_pass(std::int64_t first, std::int64_t layers, std::size_t order) const {
  return layer_sum(first, layers, [&](const BlockTimes& b) { return b.backward[order].ps; });
}

std::int64_t StepEstimate::gradient_pass(std::int64_t first, std::int64_t layers) const {
  if (!split_backward_) return backward_pass(first, layers, order_);
  return layer_sum(first, layers, [&](const BlockTimes& b) { return b.weight[order_].ps; });
}

std::int64_t StepEstimate::pass(const ChunkParts& chunks, const lowering::ChunkPart& c, Phase phase, std::size_t order) const {
  if (phase == Phase::weight) return layer_sum(c.first_layer, c.layers, [&](const BlockTimes& b) { return b.weight[order].ps; });
  const std::int64_t ends = ends_of(c, phase, order);
  if (phase == Phase::forward) return ends + layer_sum(c.first_layer, c.layers, [](const BlockTimes& b) { return b.forward.ps; });
  return ends + backward_pass(c.first_layer, c.layers, order) + recompute_pass(c.first_layer, recomputed(chunks, c));
}

/// Time of the embedding, the head and the metrics in a pass.
std::int64_t StepEstimate::ends_of(const lowering::ChunkPart& c, Phase phase, std::size_t order) const {
  const LayerTimes& layer = in_.layer;
  if (phase == Phase::forward) return (c.first ? layer.embed_forward.ps : 0) + (c.last ? layer.head_forward[order].ps : 0);
  return (c.first ? layer.embed_backward[order].ps : 0) + (c.last ? layer.head_backward[order].ps + layer.metrics.ps : 0);
}

/// Least time of a pair of passes. Layers of kinds whose pair was not timed take the longer pass of both.
std::int64_t StepEstimate::pair(const lowering::ChunkPart& forward, const lowering::ChunkPart& backward, std::size_t order) const {
  const auto kind = [&](std::int64_t layer) { return in_.shapes.kinds[static_cast<std::size_t>(layer)].index(); };
  std::int64_t sum = ends_of(forward, Phase::forward, 1) + ends_of(backward, Phase::backward, order);
  for (std::int64_t l = 0; l < std::max(forward.layers, backward.layers); ++l) {
    const bool there = l < forward.layers, back = l < backward.layers;
    const std::size_t f = there ? kind(forward.first_layer + l) : 0;
    const std::size_t b = back ? kind(backward.first_layer + backward.layers - 1 - l) : 0;
    const std::int64_t both = there && back ? (*in_.pairs)[order][f][b] : 0;
    const std::int64_t one = there ? in_.layer.blocks[f].forward.ps : 0, other = back ? in_.layer.blocks[b].backward[order].ps : 0;
    sum += both > 0 ? both : std::max(one, other);
  }
  return sum;
}

void StepEstimate::fill_pairs(const ModulePasses& modules) {
  std::vector<std::int64_t>& pairs = in_.scratch.times.pairs;
  pairs.clear();
  if (in_.pairs == nullptr) return;
  for (const ChunkParts& chunks : stages_)
    for (const lowering::ChunkPart& f : chunks)
      for (const lowering::ChunkPart& b : chunks)
        for (const std::size_t order : {std::size_t{0}, std::size_t{1}})
          pairs.push_back(pair(f, b, order) + (f.last ? modules.forward : 0) + (b.last ? modules.backward : 0));
}

void StepEstimate::fill_passes(const ModulePasses& modules) {
  const auto more = [&](const lowering::ChunkPart& c, Phase phase) {
    return !c.last ? 0 : phase == Phase::forward ? modules.forward : phase == Phase::backward ? modules.backward : 0;
  };
  auto& passes = in_.scratch.times.pass;
  passes.resize(static_cast<std::size_t>(p_ * v_ * 6));
  std::size_t i = 0;
  for (const ChunkParts& chunks : stages_)
    for (const lowering::ChunkPart& c : chunks)
      for (const Phase phase : {Phase::forward, Phase::backward, Phase::weight})
        for (const std::size_t order : {std::size_t{0}, std::size_t{1}})
          passes[i++] = pass(chunks, c, phase, order) + more(c, phase);
  fill_pairs(modules);
}

void StepEstimate::fill_transfers() {
  PassTimes& times = in_.scratch.times;
  times.transfer.assign(static_cast<std::size_t>(2 * p_), 0);
  times.wait_for_send = in_.shapes.host_receives;
  times.after_arrival = times.gather = 0;
  if (p_ == 1) return;
  const Op send = Send{in_.layer.boundary_elements, dtypes_.compute, 1};
  const bool whole_nodes = stride_ % in_.topology.devices_per_node() == 0;  // all neighbours have alike routes
  for (std::int64_t s = 0; s < p_; ++s) {
    const bool wraps_on = s == p_ - 1, wraps_back = s == 0;
    if (whole_nodes && s > 1 && !wraps_on) {
      for (const std::int64_t way : {std::int64_t{0}, p_})
        times.transfer[static_cast<std::size_t>(way + s)] = times.transfer[static_cast<std::size_t>(way + s - 1)];
      continue;
    }
    if (!wraps_on || v_ > 1)
      times.transfer[static_cast<std::size_t>(s)] =
          alone(send, {s * stride_, wraps_on ? -(p_ - 1) * stride_ : stride_, 2, 1, stride_});
    if (!wraps_back || v_ > 1)
      times.transfer[static_cast<std::size_t>(p_ + s)] =
          alone(send, {s * stride_, wraps_back ? (p_ - 1) * stride_ : -stride_, 2, 1, stride_});
  }
  if (in_.shapes.scatter_p2p)
    times.gather = gather_time();
  const std::int64_t launches = in_.layer.first_launches + (in_.shapes.scatter_p2p ? in_.layer.collective_launches : 0);
  if (in_.shapes.host_receives) times.after_arrival = launches * in_.cost.launch().ps();
}

/// Time to gather the tensor between layers from the tensor ranks' shares.
std::int64_t StepEstimate::gather_time() {
  const std::int64_t whole = in_.layer.boundary_elements * t_;
  return alone(collective(CollectiveKind::all_gather, Group::tensor, whole, dtypes_.compute), {0, 1, t_});
}

// ---- the exchange of gradients ----

bool StepEstimate::same_parts(std::size_t stage, std::size_t other) const {
  const auto same = [](const lowering::ChunkPart& a, const lowering::ChunkPart& b) {
    return a.layers == b.layers && a.first == b.first && a.last == b.last;
  };
  const ChunkParts &a = stages_[stage], &b = stages_[other];
  return only_kind_ < kLayerKinds && std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

void StepEstimate::list_parts() {
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const auto known = std::find_if(parts_.begin(), parts_.end(), [&](const StageParts& p) { return same_parts(s, p.stage); });
    parts_of_.push_back(static_cast<std::size_t>(known - parts_.begin()));
    if (known != parts_.end()) continue;
    parts_.push_back({lowering::stage_units(regions_, stages_[s], sharding_), {}, s});
    if (sharding_.offload.optimizer) parts_.back().host = host_states(s);
  }
}

/// Time after the last backward pass to add both gradients of a tied matrix that are reduced as one.
std::int64_t StepEstimate::added_uses() const {
  if (!tied_ || p_ > 1 || uses_apart_) return 0;
  return compute(Accumulate{regions_.word.elements, dtypes_.gradients, dtypes_.gradients});
}

std::int64_t StepEstimate::completed(std::int64_t s, const lowering::RegionPlace& r, const PassEnds& ends,
                                     std::int64_t late) const {
  using lowering::RegionKind;
  const ChunkParts& chunks = stages_[static_cast<std::size_t>(s)];
  const lowering::ChunkPart& c = chunks[static_cast<std::size_t>(r.chunk)];
  const auto part = static_cast<std::size_t>(s * v_ + r.chunk);
  const std::int64_t again = recomputed(chunks, c);
  // A backward pass begins with the head and ends with the embedding; weight passes that were put off have neither.
  const std::int64_t end = ends.backward[part] + late - (c.last ? in_.layer.metrics.ps : 0);
  if (r.kind == RegionKind::embedding) return end;
  if (r.kind == RegionKind::word) return end + added_uses();
  const std::int64_t embed = c.first ? in_.layer.embed_backward[order_].ps : 0;
  const std::int64_t head =
      end - embed - backward_pass(c.first_layer, c.layers, order_) - recompute_pass(c.first_layer, again);
  if (r.kind != RegionKind::block && r.kind != RegionKind::experts) return head;
  const std::int64_t l = layer_in_chunk(s, r);
  if (split_backward_) return ends.gradient[part] + late - gradient_pass(c.first_layer, l);
  const std::int64_t layer = c.first_layer + l;
  return head + gradient_pass(layer, c.layers - l) + recompute_pass(layer, std::max<std::int64_t>(0, again - l));
}

/// Lists the stage's units in order of completion, and when each is complete.
void StepEstimate::list_units(std::int64_t s, const PassEnds& ends, std::int64_t late) {
  using lowering::RegionKind;
  const lowering::StageUnits& stage = parts_of(s).units;
  in_.scratch.units.clear();
  // A stage with both uses of a tied matrix keeps the output's gradient apart. It is reduced first, with the head's.
  if (uses_apart_) {
    const lowering::RegionPlace output{RegionKind::output, static_cast<std::int32_t>(v_ - 1)};
    Unit& unit = in_.scratch.units.emplace_back();
    unit.ready = completed(s, output, ends, late);
    unit.copy = true;
  }
  const std::size_t apart = in_.scratch.units.size();
  for (const ShardUnit& u : stage.units) {
    in_.scratch.units.push_back({u.elements});
    in_.scratch.units.back().replication = u.replication;
  }
  for (const lowering::RegionPlace& r : stage.regions) {
    Unit& unit = in_.scratch.units[apart + static_cast<std::size_t>(r.unit)];
    unit.ready = std::max(unit.ready, completed(s, r, ends, late));
    if (r.kind != RegionKind::word && r.kind != RegionKind::output) continue;
    unit.word = true;
    word_unit_ = lowering::word_use_unit(r.elements, stage.units[static_cast<std::size_t>(r.unit)], sharding_);
    if (uses_apart_) in_.scratch.units.front().elements = word_unit_.elements;
  }
}

/// Puts reductions off: a unit waits for the backward pass of its chunk's PassEnds::aligned, or for `computed`, the end of all passes.
void StepEstimate::align_units(std::int64_t s, const PassEnds& ends, std::int64_t late, std::int64_t computed) {
  const std::size_t apart = uses_apart_ ? 1 : 0;  // as list_units() adds them
  const auto put_off = [&](Unit& unit, std::int32_t chunk) {
    const std::int64_t then = ends.aligned[static_cast<std::size_t>(s * v_ + chunk)];
    unit.ready = std::max(unit.ready, then < 0 ? computed : then + late);
  };
  if (uses_apart_) put_off(in_.scratch.units.front(), static_cast<std::int32_t>(v_ - 1));
  for (const lowering::RegionPlace& r : parts_of(s).units.regions)
    put_off(in_.scratch.units[apart + static_cast<std::size_t>(r.unit)], r.chunk);
}

/// The collective that sums a unit over the ranks that have its parameters.
Collective StepEstimate::unit_sum(const Unit& u) const {
  const bool experts = u.replication == Replication::expert, scatter = sharding_.zero_stage > 0;
  const Group all = experts ? Group::expert_data : Group::data, shards = experts ? Group::expert_shard : Group::shard;
  return collective(scatter ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce, scatter ? shards : all, u.elements,
                    dtypes_.gradient_reduce);
}

Collective StepEstimate::weight_gather(const Unit& u) const {
  const Group shards = u.replication == Replication::expert ? Group::expert_shard : Group::shard;
  return collective(CollectiveKind::all_gather, shards, u.elements, dtypes_.weights);
}

/// Reduces units one after the other, each when it is ready. Returns the end of the last reduction.
std::int64_t StepEstimate::send_units(std::int64_t s) {
  std::int64_t lane = 0, time = 0;
  const Unit* timed = nullptr;  // most units are as large as the one before
  for (Unit& u : in_.scratch.units) {
    const Members members = copies(s, u.replication);
    if (members.count == 1) {
      u.start = u.end = u.ready;
      lane = std::max(lane, u.end);
      continue;
    }
    if (timed == nullptr || !alike(u, *timed)) time = alone(unit_sum(u), members);
    timed = &u;
    u.start = std::max(lane, u.ready);
    lane = u.end = u.start + time;
  }
  return lane;
}

/// Time of reductions until `when`.
std::int64_t StepEstimate::sending_until(std::int64_t when) const {
  std::int64_t sum = 0;
  for (const Unit& u : in_.scratch.units) sum += std::max<std::int64_t>(0, std::min(u.end, when) - u.start);
  return sum;
}

/// Memory time of reductions until `when`.
std::int64_t StepEstimate::memory_until(std::int64_t when) const {
  std::int64_t sum = 0;
  for (const Unit& u : in_.scratch.units) {
    const std::int64_t time = std::min(u.end, when) - u.start;
    if (time <= 0) continue;
    const double share = memory_share(unit_sum(u), u.end - u.start, in_.topology.device().memory_bandwidth);
    sum += std::llround(share * static_cast<double>(time));
  }
  return sum;
}

/// `late`: delay of later stages' passes by overlapping reductions; this stage adds its own.
StepEstimate::Tail StepEstimate::tail(std::int64_t s, const PassEnds& ends, std::int64_t& late) {
  Tail t;
  std::int64_t n = 0;
  for (const lowering::ChunkPart& c : stages_[static_cast<std::size_t>(s)]) n += c.layers + (c.first ? 1 : 0);
  const std::int64_t sums = split_backward_ ? 0 : n * in_.layer.tensor_sum;
  late += sums;
  t.computed = ends.stage[static_cast<std::size_t>(s)] + late + added_uses() +
               in_.layer.collective_launches * in_.cost.launch().ps();
  list_units(s, ends, late);
  if (buckets_.aligned) align_units(s, ends, late, t.computed);
  // Units are reduced as they are completed, or in their order behind all passes.
  if (reduces_beside_backward(in_.plan.parallel, StageId(static_cast<std::int32_t>(s))))
    std::stable_sort(in_.scratch.units.begin(), in_.scratch.units.end(),
                     [](const Unit& a, const Unit& b) { return a.ready < b.ready; });
  else
    for (Unit& u : in_.scratch.units) u.ready = u.word && tied_before_weights() ? u.ready : t.computed;
  t.reduced = send_units(s);
  const double slowdown = in_.cost.comm_fit().compute_slowdown * in_.layer.computing_share;
  const auto longer = [&](std::int64_t when) { return std::llround(slowdown * static_cast<double>(memory_until(when))); };
  const std::int64_t more = longer(t.computed);
  if (!slowed_) longer_ += more;
  if (slowed_) {
    for (Unit& u : in_.scratch.units) u.moved = u.ready + longer(u.ready);
    for (Unit& u : in_.scratch.units) u.ready = u.moved;
    t.computed += more;
    late += more;
    t.reduced = send_units(s);
  }
  std::int64_t gather = 0;
  const Unit* gathered = nullptr;
  for (const Unit& u : in_.scratch.units) {
    if (u.word || d_ > 1) t.word = u.end;  // reductions keep their order, and that of tied stages comes last
    const bool experts = u.replication == Replication::expert;
    if ((experts ? sharding_.expert_shards : sharding_.shards) <= 1 || u.copy) continue;
    if (gathered == nullptr || !alike(u, *gathered)) gather = alone(weight_gather(u), copies(s, u.replication));
    gathered = &u;
    t.gather += gather;
  }
  if (sharding_.gathers_next) t.gather = 0;
  t.flat = parts_of(s).units.flat_elements;
  t.shard = parts_of(s).units.shard_elements;
  t.host = parts_of(s).host;
  beside_ = std::max(beside_, sending_until(t.computed));
  disturbed_ = std::max(disturbed_, memory_until(t.computed));
  way_ = std::max(way_, sending_until(INT64_MAX));
  t.reduced = std::max(t.reduced, t.computed);
  return t;
}

/// When the gradients of both uses of a tied matrix are added, over its stages or on the one that has both.
std::int64_t StepEstimate::tied(const std::vector<Tail>& tails) {
  if (!tied_) return 0;
  const std::int64_t share = word_unit_.shard_elements();
  if (p_ == 1)
    return uses_apart_ ? tails.front().reduced + compute(Accumulate{share, dtypes_.gradients, dtypes_.gradients}) : 0;
  return std::max(tails.front().word, tails.back().word) +
         alone(collective(CollectiveKind::all_reduce, Group::embedding, share, dtypes_.gradient_reduce),
               {0, (p_ - 1) * stride_, 2, 1, stride_});
}

/// The end of the step: tied gradients, norm, clip, update, and with ZeRO the gather of weights.
std::int64_t StepEstimate::update(const std::vector<Tail>& tails) {
  const std::int64_t tie = tied(tails);
  std::int64_t normed = 0;
  for (std::int64_t s = 0; s < p_; ++s) {
    const Tail& t = tails[static_cast<std::size_t>(s)];
    std::int64_t start = t.reduced;
    if (tied_ && (s == 0 || s == p_ - 1)) start = std::max(start, tie);
    if (s == p_ - 1 && d_ > 1) start += alone(collective(CollectiveKind::all_reduce, Group::data, 1, DType::fp64), data_groups(s));
    normed = std::max(normed, start + compute(lowering::own_norm(update_of(t), dtypes_)));
  }
  const lowering::UpdateSpec first = update_of(tails.front());
  const Members all = first.norm_group == Group::world ? Members{0, 1, in_.plan.world_size()} : Members{0, stride_, p_, t_};
  if (first.norm_is_shared) normed += alone(lowering::norm_sum(first), all);
  normed += compute(lowering::clip_of(first));
  std::int64_t end = 0;
  for (const Tail& t : tails) end = std::max(end, updated(t, normed));
  return end;
}

lowering::UpdateSpec StepEstimate::update_of(const Tail& t) const {
  lowering::UpdateSpec u = lowering::update_spec(in_.plan, in_.shapes, sharding_, t.flat, t.shard);
  u.state_elements -= t.host.elements;
  return u;
}

}  // namespace tandem::sim::closed_form
