#include "models/lowering/stage/stage.hpp"

#include <algorithm>

#include "models/lowering/stage/stage_chunks.hpp"
#include "models/lowering/stage/stage_lowering.hpp"

namespace tandem::lowering {

namespace {

std::vector<std::size_t> next_backwards(const std::vector<ScheduleEvent>& events) {
  std::vector<std::size_t> next(events.size());
  std::size_t found = events.size();
  for (std::size_t i = events.size(); i-- > 0;) {
    next[i] = found;
    if (events[i].kind == ScheduleEvent::Kind::compute && events[i].action.phase == Phase::backward) found = i;
  }
  return next;
}

}  // namespace

StageLowering::StageLowering(const StageContext& c, StageId stage)
    : c_(c),
      s_(c.shapes),
      t_(c.templates),
      stage_(stage),
      chunks_(stage_chunks(c.plan)[stage.index()]),
      blocks_(c.plan, s_, t_, chunks_),
      b_(c.library, stage),
      memory_(c, chunks_, b_),
      kept_logits_(c, chunks_, b_),
      reduction_(c, stage, memory_, b_),
      gather_(memory_, reduction_, c.plan.parallel.prefetch_layers),
      w_(c.library, b_),
      decoder_(c, chunks_, {memory_, reduction_, gather_, w_}),
      regions_(memory_, decoder_, chunks_, !c.forward_only),
      transfers_(c, b_, w_, decoder_),
      offload_(c, chunks_, blocks_, b_, w_) {}

Program StageLowering::lower(const std::vector<ScheduleEvent>& events) {
  memory_.declare(c_.plan.micro_batches());
  reduction_.prepare();
  flights_.resize(static_cast<std::size_t>(c_.plan.micro_batches()) * chunks_.size());
  b_.start(used_templates(), instances_of(events), c_.before);
  // Units of ZeRO 2 and 3 have many sizes, whose places would leave gaps.
  repeats_ = !c_.forward_only && s_.decoder_layers == 0 && !memory_.gradients_sharded();
  if (!c_.forward_only && !repeats_ && c_.plan.stack.facts.arena) b_.place_late();
  if (memory_.sharding().gathers_next) reduction_.gather_updated_weights();
  kept_logits_.begin();
  run_schedule(events);
  c_.forward_only ? reduction_.sum_loss() : reduction_.finish();
  return finish();
}

std::vector<TemplateId> StageLowering::used_templates() const {
  std::vector<TemplateId> used = c_.forward_only ? reduction_.forward_templates() : reduction_.templates();
  for (const std::vector<TemplateId>& more :
       {decoder_.used_templates(), blocks_.used_templates(c_.forward_only, shows_metrics())})
    used.insert(used.end(), more.begin(), more.end());
  return used;
}

std::size_t StageLowering::instances_of(const std::vector<ScheduleEvent>& events) const {
  std::size_t n = events.size();
  for (const ScheduleEvent& e : events) {
    const ChunkPart& p = part(e.action);
    if (e.kind == ScheduleEvent::Kind::compute) n += 3 * static_cast<std::size_t>(p.layers + 3 * p.mtp) / 2 + 1;
  }
  return n;
}

void StageLowering::run_schedule(const std::vector<ScheduleEvent>& events) {
  std::vector<Point> ends(events.size());
  if (offload_.here()) next_backwards_ = next_backwards(events);
  group_ = static_cast<std::int32_t>(c_.group);
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (repeats_) i += repeat(events, i, ends);
    run(events, i, ends);
    ends[i] = w_.last();
    if (events[i].with_next) ++i, ends[i] = w_.last();
  }
}

void StageLowering::look_ahead(const std::vector<ScheduleEvent>& events, std::size_t i) {
  if (!offload_.here()) return;
  const Action& now = events[i].action;
  const auto after = [&](std::size_t event) -> const Action* {
    const std::size_t next = next_backwards_[event];
    return next < events.size() ? &events[next].action : nullptr;
  };
  const Action* next = after(i);
  own_backward_next_ = next != nullptr && next->micro_batch == now.micro_batch && next->chunk == now.chunk;
  if (events[i].with_next) next = after(i + 1);
  // A pair's own forward pass has not ended.
  const bool open = next != nullptr && (flight(*next).away.empty() ||
                                        (events[i].with_next && next->micro_batch == now.micro_batch && next->chunk == now.chunk));
  next_backward_ = next != nullptr && !open ? std::optional(*next) : std::nullopt;
}

void StageLowering::run(const std::vector<ScheduleEvent>& events, std::size_t i, const std::vector<Point>& ends) {
  const ScheduleEvent& e = events[i];
  last_begun_ = std::max(last_begun_, e.action.micro_batch);
  switch (e.kind) {
    case ScheduleEvent::Kind::receive:
      if (e.credit >= 0) b_.credit(ends[static_cast<std::size_t>(e.credit)]);
      transfers_.receive(e, part(e.action), flight(e.action));
      break;
    case ScheduleEvent::Kind::compute:
      backward_follows_ = backward_follows(events, i);
      weights_stay_ = c_.plan.parallel.schedule == ScheduleKind::breadth_first && same_follows(events, i);
      look_ahead(events, i);
      compute(events, i);
      break;
    case ScheduleEvent::Kind::send: transfers_.send(e, part(e.action), flight(e.action)); break;
    case ScheduleEvent::Kind::release: transfers_.release(e.action, flight(e.action)); break;
  }
}

void StageLowering::compute(const std::vector<ScheduleEvent>& events, std::size_t i) {
  const Action& a = events[i].action;
  transfers_.before(a, flight(a));
  if (events[i].with_next) {
    const Action& next = events[i + 1].action;
    transfers_.before(next, flight(next));
    return c_.plan.runs_pairs() ? both(a, next) : in_turn(a, next);
  }
  if (a.phase == Phase::forward) forward(a);
  else if (a.phase == Phase::backward) backward(a);
  else weights(a);
  // A whole backward pass sends the gradient of its input after its last weights' gradients.
  if (a.phase == Phase::backward) flight(a).leaves_after = a.whole ? w_.last() : Point{};
}

Program StageLowering::finish() {
  drop_narrow_gradients();
  kept_logits_.end();
  Program p = b_.finish();
  p.memory.expandable_segments = c_.plan.training.expandable_segments;
  const StageParams& params = memory_.params();
  p.params = params.params;
  p.units = params.units;
  p.flat_elements = params.flat_elements;
  p.shard_elements = params.shard_elements;
  p.quantized = c_.shapes.adapters.base;
  p.quantized_from = params.quantized_from;
  p.gradients_sharded = memory_.gradients_sharded();
  p.weights_sharded = memory_.weights_sharded();
  p.norm_over_world = memory_.update_spec().norm_group == Group::world;
  return p;
}

Program lower_stage(const StageContext& context, StageId stage, const std::vector<ScheduleEvent>& events) {
  return StageLowering(context, stage).lower(events);
}

}  // namespace tandem::lowering
