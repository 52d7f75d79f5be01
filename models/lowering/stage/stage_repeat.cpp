// Copies micro-batches that a stage runs as it ran earlier ones: all in the middle of a step.
// Not with ZeRO 2 and 3 or a decoder, which keep more state between passes than is shown here.

#include <algorithm>
#include <utility>

#include "models/lowering/stage/stage_lowering.hpp"

namespace tandem::lowering {
namespace {

/// Number of reference states. In thousands of random plans, none that recurred was more than
/// eight back. A limit avoids comparing all micro-batches with each other if none recurs.
constexpr std::size_t kReferences = 16;

bool begins_forward(const ScheduleEvent& e) {
  return e.kind == ScheduleEvent::Kind::compute && e.action.phase == Phase::forward && e.action.chunk == 0;
}

/// Whether event `b` repeats event `a`, `micro_batches` later.
bool again(const std::vector<ScheduleEvent>& events, std::size_t a, std::size_t b, std::int32_t micro_batches) {
  const ScheduleEvent &x = events[a], &y = events[b];
  const auto apart = static_cast<std::int32_t>(b - a);
  const bool credit = x.credit < 0 || y.credit < 0 ? x.credit == y.credit : x.credit + apart == y.credit;
  Action moved = x.action;
  moved.micro_batch += micro_batches;
  return x.kind == y.kind && moved == y.action && x.offset == y.offset && credit && x.with_next == y.with_next;
}

}  // namespace

std::size_t StageLowering::repeat(const std::vector<ScheduleEvent>& events, std::size_t i, std::vector<Point>& ends) {
  const ScheduleEvent& e = events[i];
  if (e.kind != ScheduleEvent::Kind::compute) return 0;
  if (!begins_forward(e)) return turned_ = true, 0;
  const std::int32_t mb = e.action.micro_batch;
  if (mb % group_ != 0 || !std::exchange(turned_, false)) return 0;
  while (first_alive_ < mb && !alive(first_alive_)) ++first_alive_;
  if (first_alive_ < 2) return 0;  // the first micro-batch has other passes
  // Tensors allocated before the first backward pass lie in different places than
  // later ones. After two rounds through all places this has no effect any more.
  const std::int32_t in_flight = (last_begun_ - first_alive_) / group_;
  if (until_reference_ < 0) {
    b_.keep_places();
    until_reference_ = 2 * in_flight;
  }
  if (c_.every_pass) return repeats_ = false, 0;
  std::erase_if(references_, [&](const Reference& r) { return r.searches != b_.searches(); });
  for (Reference& r : references_) {
    r.state.compare(b_.written());
    show(r.state, mb);
    if (!r.state.matches()) continue;
    if (const std::size_t times = recurrences(events, r, i, ends); times > 0) return repeat(r, times, i, ends);
  }
  if (until_reference_-- > 0) return 0;
  refer(i, mb);
  until_reference_ = in_flight / 4;
  return 0;
}

std::size_t StageLowering::repeat(Reference& r, std::size_t times, std::size_t i, std::vector<Point>& ends) {
  repeats_ = false;
  const std::size_t period = i - r.event;
  const std::int64_t instances = b_.written().instances - static_cast<std::int64_t>(r.mark.instances);
  for (std::size_t k = i; k < i + times * period; ++k) {
    ends[k] = ends[k - period];
    ends[k].go(instances);
  }
  const auto n = static_cast<std::int32_t>(times);
  b_.repeat(r.mark, n, r.micro_batches, r.state);
  r.state.move(n);
  show(r.state, r.micro_batch + r.micro_batches);
  const std::size_t further = static_cast<std::size_t>(n * r.micro_batches) * chunks_.size();
  const std::size_t from = static_cast<std::size_t>(first_alive_) * chunks_.size();
  for (std::size_t f = (static_cast<std::size_t>(last_begun_) + 1) * chunks_.size(); f-- > from;)
    flights_[f + further] = std::exchange(flights_[f], {});
  last_begun_ += n * r.micro_batches;
  references_.clear();
  return times * period;
}

/// The first micro-batch overwrites gradients that later ones add to. After the last one, gradients are reduced.
std::size_t StageLowering::recurrences(const std::vector<ScheduleEvent>& events, Reference& r, std::size_t i,
                                       const std::vector<Point>& ends) const {
  const std::size_t period = i - r.event;
  const std::int64_t instances = b_.written().instances - static_cast<std::int64_t>(r.mark.instances);
  r.micro_batches = events[i].action.micro_batch - r.micro_batch;
  for (std::size_t k = r.event; k < i; ++k) {
    if (events[k].action.micro_batch == 0) return 0;
    // A credit may wait for an event older than the stored state.
    if (const auto c = static_cast<std::size_t>(events[k].credit); events[k].credit >= 0 && c < r.event) {
      Point then = ends[c];
      then.go(instances);
      if (then != ends[c + period]) return 0;
    }
  }
  const auto last = static_cast<std::int32_t>(c_.plan.micro_batches()) - 1;
  std::size_t k = i;
  while (k < events.size() && events[k].action.micro_batch < last && again(events, k - period, k, r.micro_batches)) ++k;
  const std::size_t whole = (k - i) / period;
  // What is brought back ahead depends on later events: in the last period these may be others.
  return offload_.here() && whole > 0 ? whole - 1 : whole;
}

void StageLowering::refer(std::size_t event, std::int32_t mb) {
  if (references_.size() == kReferences) references_.erase(references_.begin());
  Reference& r = references_.emplace_back();
  r.searches = b_.searches();
  r.state.take(b_.written());
  show(r.state, mb);
  r.event = event;
  r.micro_batch = mb;
  r.mark = b_.mark();
}

bool StageLowering::alive(std::int32_t mb) const {
  const auto one = flights_.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(mb) * chunks_.size());
  return std::any_of(one, one + static_cast<std::ptrdiff_t>(chunks_.size()), [](const InFlight& f) {
    return !f.hidden.empty() || f.gradient != kNoBuffer || f.sent_hidden != kNoBuffer || f.sent_gradient != kNoBuffer;
  });
}

void StageLowering::show(RepeatDetector& r, std::int32_t mb) {
  r.number(first_alive_ - mb);
  r.number(last_begun_ - mb);
  w_.show(r);
  transfers_.show(r);
  std::size_t buffers = narrow_.size() + kept_logits_.kept().size() + offload_.leaving().size();
  for (auto m = static_cast<std::size_t>(first_alive_); m <= static_cast<std::size_t>(last_begun_); ++m)
    for (std::size_t c = 0; c < chunks_.size() && !r.over(); ++c) buffers += show(r, flights_[m * chunks_.size() + c]);
  for (const std::vector<BufferId>* list : {&std::as_const(narrow_), &kept_logits_.kept(), &offload_.leaving()}) {
    r.number(static_cast<std::int64_t>(list->size()));
    for (const BufferId b : *list) b_.show(r, b);
  }
  r.number(static_cast<std::int64_t>(narrow_made_.size()));
  for (const std::int32_t region : narrow_made_) r.number(region);
  if (!r.over()) b_.show(r, buffers);
}

/// Number of the pass' buffers.
std::size_t StageLowering::show(RepeatDetector& r, InFlight& f) {
  std::size_t buffers = 0;
  const auto buffer = [&](BufferId b) {
    if (r.over()) return;
    r.number(b == kNoBuffer ? 0 : 1);
    if (b == kNoBuffer) return;
    ++buffers;
    b_.show(r, b);
  };
  for (const std::uint8_t away : f.away) r.number(away);
  for (const std::vector<BufferId>* list :
       {&f.hidden, &f.saved, &f.offloaded, &f.inputs, &f.deferred, &f.norm_saved, &f.module_saved}) {
    r.number(static_cast<std::int64_t>(list->size()));
    for (const BufferId b : *list) buffer(b);
  }
  for (const BufferId b : {f.embed_saved, f.embed_mask, f.head_saved, f.logits, f.states, f.state_gradients, f.word_gradients})
    buffer(b);
  for (const BufferId b : {f.gradient, f.sent_hidden, f.sent_gradient}) buffer(b);
  r.point(f.gradient_there);
  r.point(f.leaves_after);
  r.number(f.gather_hidden.value());
  r.number(f.gather_gradient.value());
  return buffers;
}

}  // namespace tandem::lowering
