#include "sim/closed_form/step_estimate.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/engine/overlap.hpp"

namespace tandem::sim::closed_form {
namespace {

/// Blocks of elements that parts of units are multiples of, as in the flat buffers.
constexpr std::int64_t kBlock = 64;

std::int64_t rounded_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

bool zero_bubble(ScheduleKind k) { return k == ScheduleKind::zb_h1 || k == ScheduleKind::zb_h2; }

}  // namespace

StepEstimate::StepEstimate(const Parts& x)
    : plan_(x.plan),
      topology_(x.topology),
      cost_(x.cost),
      layer_(x.layer),
      links_(x.links),
      schedules_(x.schedules),
      scratch_(x.scratch),
      t_(plan_.parallel.tensor),
      d_(plan_.parallel.data),
      p_(plan_.parallel.pipeline),
      v_(plan_.parallel.virtual_pipeline),
      m_(plan_.micro_batches()),
      stride_(t_ * d_),
      shards_(plan_.parallel.zero_stage > 0 ? d_ : 1),
      split_backward_(zero_bubble(plan_.parallel.schedule)),
      tied_(plan_.model.tie_embeddings),
      in_shares_(plan_.parallel.scatter_p2p && t_ > 1 && !plan_.parallel.sequence_parallel),
      uses_apart_(tied_ && p_ == 1 && plan_.stack.name == kOwnStack),
      order_(m_ > 1 ? 1 : 0),
      activation_(activation_type(plan_.training.dtypes.compute)),
      dtypes_(plan_.training.dtypes) {
  scratch_.split = plan_.layers_per_stage();
}

Estimate StepEstimate::estimate() {
  fill_passes();
  fill_transfers();
  shape_ = shape();
  const PassEnds& ends = schedules_.play(plan_.parallel.schedule, shape_, scratch_.times);
  std::vector<Tail> tails = all_tails(ends);
  Estimate e;
  e.step_time = Duration::picoseconds(update(tails));
  // As in sim/engine/simulate_step: what is less than half a percent of the step, all stages' added, is not counted.
  if (longer_ > e.step_time.ps() / 200) {
    slowed_ = true;
    tails = all_tails(ends);
    e.step_time = Duration::picoseconds(update(tails));
  }
  e.memory = memory(tails);
  e.outside = host_bound() ? Outside::host : contended(e.step_time) ? Outside::contended : Outside::nothing;
  return e;
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

/// As the lowering has it.
ScheduleShape StepEstimate::shape() const {
  const ScheduleShape plain{p_, m_, v_};
  if (!split_backward_) return plain;
  const LayerWork& w = layer_.work;
  std::vector<PassWork> stages;
  for (std::int64_t s = 0; s < p_; ++s) {
    const std::int64_t n = layers(s, 0), again = recomputed(s, 0);
    PassWork sum{n * w.block.forward, n * w.block.backward + again * w.again, n * w.block.weight,
                 n * w.block.held + (n - again) * w.kept, n * w.block.deferred, w.block.transfer};
    for (const auto& [there, part] : {std::pair(first(s, 0), &w.embed), std::pair(last(s, 0), &w.head)}) {
      if (!there) continue;
      sum.forward += part->forward;
      sum.backward += part->backward;
    }
    stages.push_back(sum);
  }
  return with_costs(plain, stages);
}

std::int64_t StepEstimate::recomputed(std::int64_t s, std::int64_t c) const {
  if (plan_.training.recompute != Recompute::full) return 0;
  const std::int64_t limit = plan_.training.recompute_layers, n = layers(s, c);
  if (limit == 0) return n;
  std::int64_t before = 0;
  for (std::int64_t chunk = 0; chunk < c; ++chunk) before += layers(s, chunk);
  return std::clamp<std::int64_t>(limit - before, 0, n);
}

std::int64_t StepEstimate::pass(std::int64_t s, std::int64_t c, Phase phase, std::size_t order) const {
  const std::int64_t n = layers(s, c);
  if (phase == Phase::weight) return n * layer_.weight[order].ps;
  if (phase == Phase::forward)
    return n * layer_.forward.ps + (first(s, c) ? layer_.embed_forward.ps : 0) + (last(s, c) ? layer_.head_forward[order].ps : 0);
  return n * layer_.backward[order].ps + recomputed(s, c) * layer_.recompute.ps +
         (first(s, c) ? layer_.embed_backward[order].ps : 0) +
         (last(s, c) ? layer_.head_backward[order].ps + layer_.metrics.ps : 0);
}

void StepEstimate::fill_passes() {
  auto& passes = scratch_.times.pass;
  passes.resize(static_cast<std::size_t>(p_ * v_ * 6));
  std::size_t i = 0;
  for (std::int64_t s = 0; s < p_; ++s)
    for (std::int64_t c = 0; c < v_; ++c)
      for (const Phase phase : {Phase::forward, Phase::backward, Phase::weight})
        for (const std::size_t order : {std::size_t{0}, std::size_t{1}}) passes[i++] = pass(s, c, phase, order);
}

void StepEstimate::fill_transfers() {
  PassTimes& times = scratch_.times;
  times.transfer.assign(static_cast<std::size_t>(2 * p_), 0);
  times.wait_for_send = !plan_.parallel.overlap_p2p;
  times.after_arrival = times.gather = 0;
  if (p_ == 1) return;
  const Op send = Send{layer_.boundary_elements, activation_, 1};
  for (std::int64_t s = 0; s < p_; ++s) {
    const bool wraps_on = s == p_ - 1, wraps_back = s == 0;
    if (!wraps_on || v_ > 1)
      times.transfer[static_cast<std::size_t>(s)] =
          alone(send, {s * stride_, wraps_on ? -(p_ - 1) * stride_ : stride_, 2, 1, stride_});
    if (!wraps_back || v_ > 1)
      times.transfer[static_cast<std::size_t>(p_ + s)] =
          alone(send, {s * stride_, wraps_back ? (p_ - 1) * stride_ : -stride_, 2, 1, stride_});
  }
  if (in_shares_)
    times.gather =
        alone(collective(CollectiveKind::all_gather, Group::tensor, layer_.boundary_elements * t_, activation_), {0, 1, t_});
  const std::int64_t launches = layer_.first_launches + (in_shares_ ? layer_.collective_launches : 0);
  if (!plan_.parallel.overlap_p2p) times.after_arrival = launches * cost_.launch().ps();
}

// ---- the exchange of gradients ----

void StepEstimate::add_region(std::int64_t elements, std::int64_t ready, bool alone) {
  if (alone) close_unit();
  open_.elements += elements;
  open_.ready = std::max(open_.ready, ready);
  const Bytes limit = d_ == 1 ? Bytes(0) : plan_.parallel.bucket_bytes;  // what goes nowhere waits for nobody
  if (alone || bytes_of(dtypes_.gradient_reduce, open_.elements) >= limit) close_unit();
}

void StepEstimate::close_unit() {
  if (open_.elements == 0) return;
  open_.elements = rounded_up(open_.elements, kBlock * shards_);
  scratch_.units.push_back(open_);
  open_ = {};
}

/// Between the last backward pass and a tied matrix' gradient that leaves as one.
std::int64_t StepEstimate::added_uses() {
  return tied_ && p_ == 1 && !uses_apart_ ? compute(Accumulate{layer_.word, dtypes_.gradients, dtypes_.gradients}) : 0;
}

/// The stage's parameters in order of completion, and when the last micro-batch has added its gradient to each.
void StepEstimate::list_units(std::int64_t s, const PassEnds& ends, std::int64_t late) {
  scratch_.units.clear();
  const bool alone = shards_ > 1 && tied_;
  const auto word = [&](std::int64_t ready) {
    if (alone) close_unit();
    open_.word = true;
    add_region(layer_.word, ready, alone);
  };
  for (std::int64_t c = v_; c-- > 0;) {
    const auto part = static_cast<std::size_t>(s * v_ + c);
    const std::int64_t n = layers(s, c), each = gradient_pass(), again = recomputed(s, c);
    const std::int64_t end = ends.backward[part] + late - (last(s, c) ? layer_.metrics.ps : 0);
    // A backward pass begins with the head and ends with the embedding; weight passes that were put off have neither.
    const std::int64_t embed = first(s, c) ? layer_.embed_backward[order_].ps : 0;
    const std::int64_t head = end - embed - n * layer_.backward[order_].ps - again * layer_.recompute.ps;
    std::int64_t done = split_backward_ ? ends.gradient[part] + late - n * each : head;
    // A stage with both uses of a tied matrix keeps the gradient of the output apart; it leaves first.
    if (last(s, c) && uses_apart_)
      scratch_.units.push_back({rounded_up(layer_.word, kBlock * shards_), head, 0, 0, 0, true, false});
    if (last(s, c)) add_region(layer_.head, head, false);
    if (last(s, c) && !(tied_ && p_ == 1)) word(head);
    for (std::int64_t l = n; l-- > 0;) {
      done += each + (split_backward_ || l >= again ? 0 : layer_.recompute.ps);
      add_region(layer_.block, done, false);
    }
    if (!first(s, c)) continue;
    if (layer_.embedding > 0) add_region(layer_.embedding, end, false);
    word(end + added_uses());
  }
  close_unit();
}

/// Units leave one after the other, each when it is complete; the end of the last.
std::int64_t StepEstimate::send_units(std::int64_t s) {
  const bool scatter = plan_.parallel.zero_stage > 0;
  std::int64_t lane = 0;
  for (Unit& u : scratch_.units) {
    if (d_ == 1) {
      u.start = u.end = u.ready;
      lane = std::max(lane, u.end);
      continue;
    }
    u.start = std::max(lane, u.ready);
    lane = u.end = u.start + alone(collective(scatter ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                                              scatter ? Group::shard : Group::data, u.elements, dtypes_.gradient_reduce),
                                   data_groups(s));
  }
  return lane;
}

/// How long units were on the way until `when`.
std::int64_t StepEstimate::sending_until(std::int64_t when) const {
  std::int64_t sum = 0;
  for (const Unit& u : scratch_.units) sum += std::max<std::int64_t>(0, std::min(u.end, when) - u.start);
  return sum;
}

/// What of the memory's time units had taken by `when`.
std::int64_t StepEstimate::memory_until(std::int64_t when) const {
  const CollectiveKind kind = plan_.parallel.zero_stage > 0 ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
  std::int64_t sum = 0;
  for (const Unit& u : scratch_.units) {
    const std::int64_t time = std::min(u.end, when) - u.start;
    if (time <= 0) continue;
    const double share = memory_share(collective(kind, Group::data, u.elements, dtypes_.gradient_reduce), u.end - u.start,
                                      topology_.device().memory_bandwidth);
    sum += std::llround(share * static_cast<double>(time));
  }
  return sum;
}

/// `late`: what later stages' passes took longer because gradients were under way beside them; this stage adds its own.
StepEstimate::Tail StepEstimate::tail(std::int64_t s, const PassEnds& ends, std::int64_t& late) {
  Tail t;
  std::int64_t n = 0;
  for (std::int64_t c = 0; c < v_; ++c) n += layers(s, c);
  const std::int64_t sums = split_backward_ ? 0 : (n + (s == 0 ? 1 : 0)) * layer_.sums;
  late += sums;
  t.computed = ends.stage[static_cast<std::size_t>(s)] + late + added_uses() + layer_.collective_launches * cost_.launch().ps();
  list_units(s, ends, late);
  // Units leave as they are completed, or in their order behind all passes.
  if (reduces_beside_backward(plan_.parallel, StageId(static_cast<std::int32_t>(s))))
    std::stable_sort(scratch_.units.begin(), scratch_.units.end(), [](const Unit& a, const Unit& b) { return a.ready < b.ready; });
  else
    for (Unit& u : scratch_.units) u.ready = u.word && tied_before_weights() ? u.ready : t.computed;
  t.reduced = send_units(s);
  const double slowdown = cost_.comm_fit().compute_slowdown * layer_.computing;
  const auto longer = [&](std::int64_t when) { return std::llround(slowdown * static_cast<double>(memory_until(when))); };
  const std::int64_t more = longer(t.computed);
  if (!slowed_) longer_ += more;
  if (slowed_) {
    for (Unit& u : scratch_.units) u.moved = u.ready + longer(u.ready);
    for (Unit& u : scratch_.units) u.ready = u.moved;
    t.computed += more;
    late += more;
    t.reduced = send_units(s);
  }
  for (const Unit& u : scratch_.units) {
    if (u.word || d_ > 1) t.word = u.end;  // on their way they keep their order, and what ties stages comes last
    if (!u.copy) t.flat += u.elements;
    if (shards_ > 1 && !u.copy)
      t.gather += alone(collective(CollectiveKind::all_gather, Group::shard, u.elements, dtypes_.weights), data_groups(s));
  }
  t.shard = t.flat / shards_;
  beside_ = std::max(beside_, sending_until(t.computed));
  disturbed_ = std::max(disturbed_, memory_until(t.computed));
  way_ = std::max(way_, sending_until(INT64_MAX));
  t.reduced = std::max(t.reduced, t.computed);
  return t;
}

/// Ties, norm, clip, update, and with ZeRO the gathering of weights.
std::int64_t StepEstimate::update(const std::vector<Tail>& tails) {
  const OptimizerSpec& o = plan_.training.optimizer;
  const bool master = dtypes_.master != dtypes_.weights;
  std::int64_t tie = 0;
  if (tied_ && p_ > 1) {
    const std::int64_t share = rounded_up(layer_.word, kBlock * shards_) / shards_;
    tie = std::max(tails.front().word, tails.back().word) +
          alone(collective(CollectiveKind::all_reduce, Group::embedding, share, dtypes_.gradient_reduce),
                {0, (p_ - 1) * stride_, 2, 1, stride_});
  } else if (uses_apart_) {
    const std::int64_t share = rounded_up(layer_.word, kBlock * shards_) / shards_;
    tie = tails.front().reduced + compute(Accumulate{share, dtypes_.gradients, dtypes_.gradients});
  }
  std::int64_t normed = 0;
  for (std::int64_t s = 0; s < p_; ++s) {
    const Tail& t = tails[static_cast<std::size_t>(s)];
    std::int64_t start = t.reduced;
    if (tied_ && (s == 0 || s == p_ - 1)) start = std::max(start, tie);
    if (s == p_ - 1 && d_ > 1) start += alone(collective(CollectiveKind::all_reduce, Group::data, 1, DType::fp64), data_groups(s));
    normed = std::max(normed, start + compute(GradNorm{t.shard, dtypes_.gradients}));
  }
  const bool world = shards_ > 1;
  const Members all = world ? Members{0, 1, plan_.world_size()} : Members{0, stride_, p_, t_};
  normed += alone(collective(CollectiveKind::all_reduce, world ? Group::world : Group::model, kExactWords, DType::int64), all);
  normed += compute(ClipCoefficient{plan_.training.clip_grad});
  std::int64_t end = 0;
  for (std::int64_t s = 0; s < p_; ++s) {
    const Tail& t = tails[static_cast<std::size_t>(s)];
    const Op op =
        o.kind == OptimizerKind::sgd
            ? Op(Sgd{t.shard, o.momentum, o.weight_decay, master, dtypes_.gradients, dtypes_.weights, dtypes_.optimizer_state})
            : Op(AdamW{t.shard, o.beta1, o.beta2, o.epsilon, o.weight_decay, master, dtypes_.gradients, dtypes_.weights,
                       dtypes_.optimizer_state});
    const std::int64_t done = normed + compute(op);
    end = std::max(end, done + t.gather);
  }
  return end;
}

// ---- memory ----

/// What lives for the whole step, what the most micro-batches in flight keep, and scratch.
Bytes StepEstimate::memory(const std::vector<Tail>& tails) {
  const auto states = plan_.training.optimizer.kind == OptimizerKind::sgd ? (plan_.training.optimizer.momentum > 0 ? 1 : 0) : 2;
  Bytes most;
  for (std::int64_t s = 0; s < p_; ++s) {
    const Tail& t = tails[static_cast<std::size_t>(s)];
    std::int64_t n = 0;
    for (std::int64_t c = 0; c < v_; ++c) n = std::max(n, layers(s, c));
    Bytes sum = bytes_of(dtypes_.weights, t.flat) + bytes_of(dtypes_.gradients, t.flat) +
                states * bytes_of(dtypes_.optimizer_state, t.shard);
    if (dtypes_.master != dtypes_.weights) sum += bytes_of(dtypes_.master, t.shard);
    if (uses_apart_) sum += bytes_of(dtypes_.gradients, layer_.word);
    const std::int64_t held = schedules_.most_held(plan_.parallel.schedule, shape_, s);
    const bool again = plan_.training.recompute == Recompute::full;
    sum += held * ((n + 1) * layer_.hidden + (again ? Bytes(0) : n * layer_.saved)) + (again ? layer_.saved : Bytes(0));
    most = std::max(most, sum);
  }
  return most + 2 * layer_.hidden + layer_.scratch + topology_.device().runtime_memory;
}

// ---- where all that holds ----

/// Whether what shares links, or computes while gradients leave in a way that is not followed here, could take half a percent of
/// the step longer for it. Beside tensor collectives, which are there for a part of the time, a part counts.
bool StepEstimate::contended(Duration step) {
  const Op sums = collective(CollectiveKind::all_reduce, Group::data, layer_.block, dtypes_.gradient_reduce);
  const Op tensor = collective(CollectiveKind::all_reduce, Group::tensor, layer_.boundary_elements, activation_);
  const Op send = Send{layer_.boundary_elements, activation_, 1};
  const Members tensor_group{0, 1, t_}, neighbours{0, stride_, 2, 1, stride_};
  std::int64_t longer = 0;
  if (d_ > 1) {
    if (links_.crowded(sums, data_groups(0), p_, stride_)) longer += way_;
    if (t_ > 1 && links_.meet(tensor, tensor_group, sums, data_groups(0))) longer += beside_ / 4;
    // Other chunks' passes, weight passes and tensor ranks' sums go on meanwhile, and all slow each other in turn.
    const bool sums_beside = t_ > 1 && (plan_.parallel.sequence_parallel || plan_.parallel.overlap_tensor_sum);
    const bool passes = v_ > 1 || split_backward_ || sums_beside;
    if (passes)
      longer += std::max<std::int64_t>(longer_, std::llround(cost_.comm_fit().compute_slowdown * static_cast<double>(disturbed_)));
  }
  if (p_ > 1) {
    const std::int64_t transfer = *std::max_element(scratch_.times.transfer.begin(), scratch_.times.transfer.end());
    const std::int64_t sent = 2 * m_ * v_ * transfer;
    if (d_ > 1 && links_.meet(send, neighbours, sums, data_groups(0))) longer += p_ * transfer;
    if (links_.crowded(send, neighbours, p_ - 1, stride_)) longer += sent;
    if (t_ > 1 && links_.meet(tensor, tensor_group, send, neighbours)) longer += sent / 3;
    longer += m_ * v_ * scratch_.times.after_arrival;  // a host that has waited is as late for the next tasks again
  }
  // Behind another micro-batch's pass, and at the last turn, a gather can run ahead, which in the step that layers were read off it cannot.
  if (plan_.parallel.sequence_parallel)
    longer += (m_ + 1) * alone(collective(CollectiveKind::all_gather, Group::tensor, layer_.boundary_elements * t_, activation_),
                               tensor_group);
  if (split_backward_ && plan_.parallel.sequence_parallel && m_ < 2 * p_) longer += step.ps() / 100;  // sums beside few weight passes
  return longer > step.ps() / 200;
}

/// Launches that take four fifths of the work leave too little room for a host that is late. An update that is recorded before it begins
/// waits for the host, too, and how long is not known here.
bool StepEstimate::host_bound() const {
  constexpr double kRoom = 0.8;
  const auto launch = static_cast<double>(cost_.launch().ps());
  const auto late = [&](const PartTime& t) {
    return t.launches > 0 && launch * static_cast<double>(t.launches) > kRoom * static_cast<double>(t.ps);
  };
  return (layer_.update_recorded && launch > 0) || late(layer_.forward) || late(layer_.backward[1]) ||
         (split_backward_ && late(layer_.weight[1])) || (plan_.training.recompute == Recompute::full && late(layer_.recompute));
}

}  // namespace tandem::sim::closed_form
