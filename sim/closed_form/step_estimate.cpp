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

/// Of a step, the most that communications which share links may lengthen it by, if they all meet. They seldom do: of 1,000 random plans
/// none was off by more than half of that (2026-11-24).
constexpr double kContended = 0.03;

/// The lowering's; what goes nowhere waits for nobody.
lowering::Sharding sharding_of(const Plan& plan, std::int64_t data) {
  lowering::Sharding z = lowering::sharding_of(plan);
  if (data == 1) z.bucket_bytes = Bytes(0);
  return z;
}

}  // namespace

StepEstimate::StepEstimate(const Parts& x)
    : in_(x),
      stages_(lowering::stage_chunks(in_.plan)),
      kind_(in_.plan.parallel.schedule),
      t_(in_.shapes.tensor),
      d_(in_.plan.parallel.data * in_.shapes.context),
      p_(static_cast<std::int64_t>(stages_.size())),
      v_(static_cast<std::int64_t>(stages_.front().size())),
      m_(in_.plan.micro_batches()),
      stride_(t_ * d_),
      with_experts_(in_.plan.parallel.expert * in_.shapes.expert_tensor),
      kinds_(in_.shapes),
      regions_(in_.layer.regions),
      sharding_(sharding_of(in_.plan, d_)),
      split_backward_(in_.shapes.defer_weights),
      tied_(in_.shapes.tied),
      uses_apart_(lowering::word_uses(stages_.front(), tied_).size() > 1 && lowering::word_uses_apart(in_.plan)),
      recompute_layers_(in_.plan.training.recompute == Recompute::full ? in_.plan.training.recompute_layers : -1),
      order_(m_ > 1 ? 1 : 0),
      dtypes_(in_.shapes.dtypes),
      shape_(lowering::shape_of(in_.plan, work())) {
  if (!regions_.moe_layer.empty()) regions_.moe_layer = in_.shapes.moe_layer;
}

Estimate StepEstimate::estimate() {
  fill_passes();
  fill_transfers();
  const PassEnds& ends = in_.schedules.play(kind_, shape_, in_.scratch.times);
  in_.scratch.passes = *std::max_element(ends.stage.begin(), ends.stage.end());
  std::vector<Tail> tails = all_tails(ends);
  Estimate e;
  e.step_time = Duration::picoseconds(update(tails));
  // As in sim/engine/simulate_step: what is less than that, all stages' added, is not counted.
  if (longer_ > e.step_time.ps() / kNoticed) {
    slowed_ = true;
    tails = all_tails(ends);
    e.step_time = Duration::picoseconds(update(tails));
  }
  e.memory = memory(tails);
  e.outside = host_bound() ? Outside::host : contended(e.step_time) ? Outside::contended : Outside::nothing;
  return e;
}

std::int64_t StepEstimate::passes() {
  fill_passes();
  fill_transfers();
  const PassEnds& ends = in_.schedules.play(kind_, shape_, in_.scratch.times);
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

/// By stage, what an automatic order is made for; empty where there is none.
std::vector<PassWork> StepEstimate::work() const {
  std::vector<PassWork> stages;
  if (!split_backward_) return stages;
  for (const ChunkParts& chunks : stages_) {
    PassWork sum;
    for (const lowering::ChunkPart& c : chunks) {
      const std::int64_t again = recomputed(chunks, c);
      const KindCounts all = kinds_.among(c.first_layer, c.layers), twice = kinds_.among(c.first_layer, again);
      for (std::size_t k = 0; k < kBlockKinds; ++k) lowering::add_layers(sum, in_.layer.blocks[k].work, all[k], twice[k]);
      lowering::add_ends(sum, in_.layer.ends, c);
    }
    stages.push_back(sum);
  }
  return stages;
}

std::int64_t StepEstimate::recomputed(const ChunkParts& chunks, const lowering::ChunkPart& c) const {
  return recompute_layers_ < 0 ? 0 : lowering::among_first(chunks, c, recompute_layers_);
}

template <class OfKind>
std::int64_t StepEstimate::layer_sum(std::int64_t first, std::int64_t layers, const OfKind& of_kind) const {
  const KindCounts counts = kinds_.among(first, layers);
  std::int64_t out = 0;
  for (std::size_t k = 0; k < kBlockKinds; ++k)
    if (counts[k] > 0) out += counts[k] * of_kind(in_.layer.blocks[k]);
  return out;
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
  const LayerTimes& layer = in_.layer;
  if (phase == Phase::weight) return layer_sum(c.first_layer, c.layers, [&](const BlockTimes& b) { return b.weight[order].ps; });
  if (phase == Phase::forward)
    return layer_sum(c.first_layer, c.layers, [](const BlockTimes& b) { return b.forward.ps; }) + (c.first ? layer.embed_forward.ps : 0) +
           (c.last ? layer.head_forward[order].ps : 0);
  return backward_pass(c.first_layer, c.layers, order) + recompute_pass(c.first_layer, recomputed(chunks, c)) +
         (c.first ? layer.embed_backward[order].ps : 0) + (c.last ? layer.head_backward[order].ps + layer.metrics.ps : 0);
}

void StepEstimate::fill_passes() {
  auto& passes = in_.scratch.times.pass;
  passes.resize(static_cast<std::size_t>(p_ * v_ * 6));
  std::size_t i = 0;
  for (const ChunkParts& chunks : stages_)
    for (const lowering::ChunkPart& c : chunks)
      for (const Phase phase : {Phase::forward, Phase::backward, Phase::weight})
        for (const std::size_t order : {std::size_t{0}, std::size_t{1}}) passes[i++] = pass(chunks, c, phase, order);
}

void StepEstimate::fill_transfers() {
  PassTimes& times = in_.scratch.times;
  times.transfer.assign(static_cast<std::size_t>(2 * p_), 0);
  times.wait_for_send = in_.shapes.host_receives;
  times.after_arrival = times.gather = 0;
  if (p_ == 1) return;
  const Op send = Send{in_.layer.boundary_elements, dtypes_.compute, 1};
  for (std::int64_t s = 0; s < p_; ++s) {
    const bool wraps_on = s == p_ - 1, wraps_back = s == 0;
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

/// Of the tensor between layers, from the tensor ranks' shares.
std::int64_t StepEstimate::gather_time() {
  const std::int64_t whole = in_.layer.boundary_elements * t_;
  return alone(collective(CollectiveKind::all_gather, Group::tensor, whole, dtypes_.compute), {0, 1, t_});
}

// ---- the exchange of gradients ----

/// Between the last backward pass and a tied matrix' gradient that leaves as one.
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
  const std::int64_t l = r.layer - c.first_layer;
  if (split_backward_) return ends.gradient[part] + late - gradient_pass(c.first_layer, l);
  return head + gradient_pass(r.layer, c.layers - l) + recompute_pass(r.layer, std::max<std::int64_t>(0, again - l));
}

/// The stage's units in order of completion, and when each is complete.
lowering::StageUnits StepEstimate::list_units(std::int64_t s, const PassEnds& ends, std::int64_t late) {
  using lowering::RegionKind;
  const lowering::StageUnits stage = lowering::stage_units(regions_, stages_[static_cast<std::size_t>(s)], sharding_);
  in_.scratch.units.clear();
  // A stage with both uses of a tied matrix keeps the gradient of the output apart; it leaves first, with the head's.
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
  return stage;
}

/// What sums a unit over the ranks that have its parameters.
Collective StepEstimate::unit_sum(const Unit& u) const {
  const bool experts = u.replication == Replication::expert;
  if (sharding_.zero_stage > 0)
    return collective(CollectiveKind::reduce_scatter, experts ? Group::expert_shard : Group::shard, u.elements, dtypes_.gradient_reduce);
  return collective(CollectiveKind::all_reduce, experts ? Group::expert_data : Group::data, u.elements, dtypes_.gradient_reduce);
}

/// Units leave one after the other, each when it is complete; the end of the last.
std::int64_t StepEstimate::send_units(std::int64_t s) {
  std::int64_t lane = 0;
  for (Unit& u : in_.scratch.units) {
    const Members members = copies(s, u.replication);
    if (members.count == 1) {
      u.start = u.end = u.ready;
      lane = std::max(lane, u.end);
      continue;
    }
    u.start = std::max(lane, u.ready);
    lane = u.end = u.start + alone(unit_sum(u), members);
  }
  return lane;
}

/// How long units were on the way until `when`.
std::int64_t StepEstimate::sending_until(std::int64_t when) const {
  std::int64_t sum = 0;
  for (const Unit& u : in_.scratch.units) sum += std::max<std::int64_t>(0, std::min(u.end, when) - u.start);
  return sum;
}

/// What of the memory's time units had taken by `when`.
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

/// `late`: what later stages' passes took longer because gradients were under way beside them; this stage adds its own.
StepEstimate::Tail StepEstimate::tail(std::int64_t s, const PassEnds& ends, std::int64_t& late) {
  Tail t;
  std::int64_t n = 0;
  for (const lowering::ChunkPart& c : stages_[static_cast<std::size_t>(s)]) n += c.layers + (c.first ? 1 : 0);
  const std::int64_t sums = split_backward_ ? 0 : n * in_.layer.sums;
  late += sums;
  t.computed = ends.stage[static_cast<std::size_t>(s)] + late + added_uses() +
               in_.layer.collective_launches * in_.cost.launch().ps();
  const lowering::StageUnits stage = list_units(s, ends, late);
  // Units leave as they are completed, or in their order behind all passes.
  if (reduces_beside_backward(in_.plan.parallel, StageId(static_cast<std::int32_t>(s))))
    std::stable_sort(in_.scratch.units.begin(), in_.scratch.units.end(),
                     [](const Unit& a, const Unit& b) { return a.ready < b.ready; });
  else
    for (Unit& u : in_.scratch.units) u.ready = u.word && tied_before_weights() ? u.ready : t.computed;
  t.reduced = send_units(s);
  const double slowdown = in_.cost.comm_fit().compute_slowdown * in_.layer.computing;
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
  for (const Unit& u : in_.scratch.units) {
    if (u.word || d_ > 1) t.word = u.end;  // on their way they keep their order, and what ties stages comes last
    const bool experts = u.replication == Replication::expert;
    if ((experts ? sharding_.expert_shards : sharding_.shards) > 1 && !u.copy)
      t.gather += alone(collective(CollectiveKind::all_gather, experts ? Group::expert_shard : Group::shard, u.elements, dtypes_.weights),
                        copies(s, u.replication));
  }
  t.flat = stage.flat_elements;
  t.shard = stage.shard_elements;
  beside_ = std::max(beside_, sending_until(t.computed));
  disturbed_ = std::max(disturbed_, memory_until(t.computed));
  way_ = std::max(way_, sending_until(INT64_MAX));
  t.reduced = std::max(t.reduced, t.computed);
  return t;
}

/// Gradients of both uses of a tied matrix are added, over its stages or on the one that has both.
std::int64_t StepEstimate::tied(const std::vector<Tail>& tails) {
  if (!tied_) return 0;
  const std::int64_t share = word_unit_.shard_elements();
  if (p_ == 1)
    return uses_apart_ ? tails.front().reduced + compute(Accumulate{share, dtypes_.gradients, dtypes_.gradients}) : 0;
  return std::max(tails.front().word, tails.back().word) +
         alone(collective(CollectiveKind::all_reduce, Group::embedding, share, dtypes_.gradient_reduce),
               {0, (p_ - 1) * stride_, 2, 1, stride_});
}

/// Ties, norm, clip, update, and with ZeRO the gathering of weights.
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
  for (const Tail& t : tails)
    end = std::max(end, normed + compute(lowering::update_of(update_of(t), dtypes_)) + t.gather);
  return end;
}

lowering::UpdateSpec StepEstimate::update_of(const Tail& t) const {
  return lowering::update_spec(in_.plan, in_.shapes, sharding_, t.flat, t.shard);
}

// ---- memory ----

/// What lives for the whole step, and the most that comes and goes: passes, or the update.
Bytes StepEstimate::memory(const std::vector<Tail>& tails) {
  const std::vector<Bytes>& runtime = in_.runtime.of(in_.plan, tied_);
  Bytes most;
  for (std::int64_t s = 0; s < p_; ++s) {
    const Tail& t = tails[static_cast<std::size_t>(s)];
    const lowering::UpdateSpec u = update_of(t);
    Bytes sum = bytes_of(u.weights, t.flat) + bytes_of(dtypes_.gradients, t.flat) +
                in_.layer.apart + runtime[static_cast<std::size_t>(s)];
    for (const lowering::OptimizerState& state : lowering::optimizer_states(u.optimizer, u.weights, in_.shapes))
      sum += bytes_of(state.type, u.state_elements);
    if (uses_apart_ && p_ > 1) sum += bytes_of(dtypes_.gradients, word_unit_.elements);
    const Bytes update(in_.shapes.fusion.step_bytes * u.state_elements);
    most = std::max(most, sum + std::max(update, passing(s)));
  }
  return most;
}

/// Of a stage's passes: what the most micro-batches in flight keep, and a pass on top of it. A stage with the head is a small model that
/// holds more.
Bytes StepEstimate::passing(std::int64_t s) {
  const ChunkParts& chunks = stages_[static_cast<std::size_t>(s)];
  const std::int64_t held = in_.schedules.most_held(kind_, shape_, s);
  Bytes again;
  if (recompute_layers_ >= 0)
    for (std::size_t k = 0; k < kBlockKinds; ++k)
      if (kinds_.has(k)) again = std::max(again, in_.layer.blocks[k].saved);
  const Bytes pass = held * kept(chunks) + again + 2 * in_.layer.hidden + in_.layer.scratch;
  if (!chunks.back().last) return pass;
  const bool all = kind_ == ScheduleKind::gpipe || kind_ == ScheduleKind::breadth_first;  // all forward passes come first
  const Bytes more = held * kept(chunks) - kept_by_small() + (all ? m_ - 1 : 0) * in_.layer.head;
  return std::max(pass, in_.layer.passing + more);
}

/// The most that a chunk keeps of a micro-batch.
Bytes StepEstimate::kept(const ChunkParts& chunks) const {
  Bytes most;
  for (const lowering::ChunkPart& c : chunks) {
    const std::int64_t again = recomputed(chunks, c);
    const std::int64_t saved =
        layer_sum(c.first_layer + again, c.layers - again, [](const BlockTimes& b) { return b.saved.count(); });
    most = std::max(most, (c.layers + 1) * in_.layer.hidden + Bytes(saved));
  }
  return most;
}

/// The same of the model whose step was read.
Bytes StepEstimate::kept_by_small() const {
  const std::vector<std::size_t>& kinds = in_.layer.small_kinds;
  const auto layers = static_cast<std::int64_t>(kinds.size());
  const lowering::ChunkPart small{0, 0, layers, true, true, false};
  Bytes sum = (layers + 1) * in_.layer.hidden;
  for (std::int64_t l = recomputed({small}, small); l < layers; ++l) sum += in_.layer.blocks[kinds[static_cast<std::size_t>(l)]].saved;
  return sum;
}

// ---- where all that holds ----

/// Whether what shares links, or computes while gradients leave in a way that is not followed here, could take three percent of
/// the step longer for it. Beside tensor collectives, which are there for a part of the time, a part counts.
bool StepEstimate::contended(Duration step) {
  const Op sums = collective(CollectiveKind::all_reduce, Group::data, regions_.dense.elements, dtypes_.gradient_reduce);
  const Op tensor = collective(CollectiveKind::all_reduce, Group::tensor, in_.layer.boundary_elements, dtypes_.compute);
  const Op send = Send{in_.layer.boundary_elements, dtypes_.compute, 1};
  const Members tensor_group{0, 1, t_}, neighbours{0, stride_, 2, 1, stride_};
  std::int64_t longer = 0;
  if (d_ > 1) {
    if (in_.links.crowded(sums, data_groups(0), p_, stride_)) longer += way_;
    if (t_ > 1 && in_.links.meet(tensor, tensor_group, sums, data_groups(0))) longer += beside_ / 4;
    // Other chunks' passes, weight passes and tensor ranks' sums go on meanwhile, and all slow each other in turn.
    const bool sums_beside = t_ > 1 && (in_.shapes.sequence_parallel || in_.shapes.sum_beside_weights);
    const bool passes = v_ > 1 || split_backward_ || sums_beside;
    const double slowed = in_.cost.comm_fit().compute_slowdown * static_cast<double>(disturbed_);
    if (passes) longer += std::max<std::int64_t>(longer_, std::llround(slowed));
  }
  if (p_ > 1) {
    const std::int64_t transfer = *std::max_element(in_.scratch.times.transfer.begin(), in_.scratch.times.transfer.end());
    const std::int64_t sent = 2 * m_ * v_ * transfer;
    if (d_ > 1 && in_.links.meet(send, neighbours, sums, data_groups(0))) longer += p_ * transfer;
    if (in_.links.crowded(send, neighbours, p_ - 1, stride_)) longer += sent;
    if (t_ > 1 && in_.links.meet(tensor, tensor_group, send, neighbours)) longer += sent / 3;
    longer += m_ * v_ * in_.scratch.times.after_arrival;  // a host that has waited is as late for the next tasks again
  }
  longer += beside_exchanges();
  // Behind another micro-batch's pass, and at the last turn, a gather can run ahead, which in the step that layers were read off it cannot.
  if (in_.shapes.sequence_parallel)
    longer += (m_ + 1) * gather_time();
  if (split_backward_ && in_.shapes.sequence_parallel && m_ < 2 * p_) longer += step.ps() / 100;  // sums beside few weight passes
  return static_cast<double>(longer) > kContended * static_cast<double>(step.ps());
}

/// Launches that take four fifths of the work leave too little room for a host that is late. An update that is recorded before it begins
/// waits for the host, too, and how long is not known here.
bool StepEstimate::host_bound() const {
  constexpr double kRoom = 0.8;
  const auto launch = static_cast<double>(in_.cost.launch().ps());
  const auto late = [&](const PartTime& t) {
    return t.launches > 0 && launch * static_cast<double>(t.launches) > kRoom * static_cast<double>(t.ps);
  };
  if (in_.layer.update_recorded && launch > 0) return true;
  return std::any_of(in_.layer.blocks.begin(), in_.layer.blocks.end(), [&](const BlockTimes& b) {
    return late(b.forward) || late(b.backward[1]) || (split_backward_ && late(b.weight[1])) ||
           (recompute_layers_ >= 0 && late(b.recompute));
  });
}

/// What exchanges of rows among experts, and of keys among context ranks, take longer beside gradients, transfers and each other.
std::int64_t StepEstimate::beside_exchanges() {
  const std::int64_t context = in_.shapes.context, experts = in_.plan.parallel.expert;
  const Op sums = collective(CollectiveKind::all_reduce, Group::data, regions_.dense.elements, dtypes_.gradient_reduce);
  const Op send = Send{in_.layer.boundary_elements, dtypes_.compute, 1};
  const Members neighbours{0, stride_, 2, 1, stride_};
  const std::int64_t transfers = p_ == 1 ? 0 : 2 * m_ * v_ * *std::max_element(in_.scratch.times.transfer.begin(), in_.scratch.times.transfer.end());
  std::int64_t longer = 0;
  const auto count = [&](const Op& op, const Members& group) {
    if (d_ > 1 && in_.links.meet(op, group, sums, data_groups(0))) longer += beside_;
    if (p_ > 1 && in_.links.meet(op, group, send, neighbours)) longer += transfers / 3;
    const std::int64_t groups = stride_ * p_ / (group.size() * group.groups);
    const double sending = 1 - in_.layer.computing;
    if (groups > 1 && in_.links.crowded(op, group, groups, group.size() * group.groups))
      longer += std::llround(sending * static_cast<double>(in_.scratch.passes));
  };
  if (context > 1) count(collective(CollectiveKind::all_gather, Group::context, in_.layer.boundary_elements, dtypes_.compute), {0, t_, context, 1, t_});
  if (experts > 1) count(collective(CollectiveKind::all_to_all, Group::expert, in_.layer.boundary_elements, dtypes_.compute), expert_group());
  return longer;
}

}  // namespace tandem::sim::closed_form
