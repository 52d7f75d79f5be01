// The transfers around a stage's actions.

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <tuple>
#include <utility>

#include "models/base/error.hpp"
#include "models/schedule/zero_bubble.hpp"

namespace tandem {
namespace {

using Kind = ScheduleEvent::Kind;

/// The neighbour with the part of the model that is `offset` parts further: +1 or -1.
std::optional<Neighbour> neighbour(const ScheduleShape& shape, StageId stage, const Action& action, int offset) {
  const bool back = shape.folded && action.chunk == 1;
  const std::int64_t part = (back ? 2 * shape.stages - 1 - stage.value() : action.chunk * shape.stages + stage.value()) + offset;
  if (shape.stages == 1 || part < 0 || part >= shape.stages * shape.chunks) return std::nullopt;
  const Action there{action.phase, action.micro_batch, static_cast<std::int32_t>(part / shape.stages)};
  if (shape.folded && there.chunk != action.chunk) return std::nullopt;
  return Neighbour{back ? -offset : offset, there};
}

/// Number of passes in its direction that an input waits for its action. Nonzero
/// only when the chunk changes, in a group of more micro-batches than stages.
std::int64_t passes_waited(const ScheduleShape& shape, std::int64_t group, const Action& action, const Neighbour& from) {
  if (from.action.chunk == action.chunk) return 0;
  const std::int64_t here = std::min(group, shape.micro_batches - action.micro_batch / group * group);
  return std::max<std::int64_t>(0, here - shape.stages);
}

/// The order of exchanges: has_exchanges in models/schedule/schedule.hpp.
class ExchangeWriter {
 public:
  ExchangeWriter(const ScheduleShape& shape, StageId stage, std::vector<Action> actions)
      : shape_(shape), stage_(stage), actions_(std::move(actions)),
        warmup_(static_cast<std::size_t>(warmup(ScheduleKind::interleaved, shape, stage))) {}

  std::vector<ScheduleEvent> write() {
    exchange(0, -1);
    for (std::size_t k = 0; k < actions_.size(); ++k) {
      const auto computed = static_cast<std::int32_t>(events_.size());
      events_.push_back({Kind::compute, actions_[k]});
      made_.push_back(k);
      events_.back().with_next = shape_.pairs && in_turn(k);
      if (!events_.back().with_next) release();
      if (!in_turn(k)) exchange(k + 1, computed);
    }
    release();
    return std::move(events_);
  }

 private:
  /// Whether action `k` is a forward pass that alternates with the backward pass behind it.
  bool in_turn(std::size_t k) const { return k >= warmup_ && actions_[k].phase == Phase::forward; }

  /// One exchange after `computed`: sends all new outputs and receives all inputs needed from action `k` until the next exchange.
  void exchange(std::size_t k, std::int32_t computed) {
    for (const std::size_t made : made_)
      if (const auto to = output_to(shape_, stage_, actions_[made])) {
        events_.push_back({Kind::send, actions_[made], to->offset});
        sent_.push_back(made);
      }
    made_.clear();
    for (bool more = k < actions_.size(); more; ++k) {
      if (const auto from = input_from(shape_, stage_, actions_[k]))
        events_.push_back({Kind::receive, actions_[k], from->offset, computed});
      more = in_turn(k);
    }
  }

  void release() {
    for (const std::size_t sent : sent_) events_.push_back({Kind::release, actions_[sent]});
    sent_.clear();
  }

  const ScheduleShape& shape_;
  StageId stage_;
  std::vector<Action> actions_;
  std::size_t warmup_;
  std::vector<ScheduleEvent> events_;
  std::vector<std::size_t> made_, sent_;
};

/// A receive, and the action before which it is issued.
struct PostedReceive {
  std::size_t needed = 0;  ///< the first action that needs it
  std::size_t action = 0;  ///< the action whose input it is
  int offset = 0;
  std::int64_t buffers = kReceiveBuffers;
};

class EventWriter {
 public:
  EventWriter(ScheduleKind kind, const ScheduleShape& shape, StageId stage, std::vector<Action> actions)
      : shape_(shape), group_(chunk_group(kind, shape)), stage_(stage), actions_(std::move(actions)),
        first_pair_(shape.pairs ? first_pair(kind, shape, stage) : SIZE_MAX) {
    find_receives(Phase::forward);
    find_receives(Phase::backward);
    std::sort(receives_.begin(), receives_.end(), [](const PostedReceive& a, const PostedReceive& b) {
      return std::tie(a.needed, a.action) < std::tie(b.needed, b.action);
    });
  }

  std::vector<ScheduleEvent> write() {
    std::size_t posted = 0;
    for (std::size_t k = 0; k < actions_.size();) {
      const std::size_t passes = at_once(k), next = k + passes;
      while (posted < receives_.size() && receives_[posted].needed < next + at_once(next)) receive(receives_[posted++]);
      for (std::size_t i = k; i < next; ++i) compute(actions_[i]);
      if (passes == 2) events_[events_.size() - 2].with_next = true;
      for (std::size_t i = k; i < next; ++i) send(i);
      k = next;
      while (!sent_.empty() && sent_.front() + kSendHold < k) release();
    }
    while (!sent_.empty()) release();
    return std::move(events_);
  }

 private:
  /// Number of actions from `k` on that run at the same time.
  std::size_t at_once(std::size_t k) const {
    const bool pair = k >= first_pair_ && k + 1 < actions_.size() && actions_[k].phase == Phase::forward &&
                      actions_[k + 1].phase == Phase::backward;
    return pair ? 2 : 1;
  }

  void find_receives(Phase direction) {
    std::vector<std::size_t> passes;
    for (std::size_t k = 0; k < actions_.size(); ++k) {
      if (actions_[k].phase != direction) continue;
      passes.push_back(k);
      const auto from = input_from(shape_, stage_, actions_[k]);
      if (!from) continue;
      const std::int64_t early = passes_waited(shape_, group_, actions_[k], *from);
      receives_.push_back(
          {passes[passes.size() - 1 - static_cast<std::size_t>(early)], k, from->offset, kReceiveBuffers + early});
    }
  }

  void receive(const PostedReceive& r) {
    const Action& a = actions_[r.action];
    auto& d = directions_[a.phase == Phase::forward ? 0 : 1];
    const auto holder = d.received++ - r.buffers;  // the earlier receive that had the buffer
    events_.push_back({Kind::receive, a, r.offset, holder < 0 ? -1 : d.consumed.at(static_cast<std::size_t>(holder))});
  }

  void compute(const Action& a) {
    if (input_from(shape_, stage_, a))
      directions_[a.phase == Phase::forward ? 0 : 1].consumed.push_back(static_cast<std::int32_t>(events_.size()));
    events_.push_back({Kind::compute, a});
  }

  void send(std::size_t k) {
    const auto to = output_to(shape_, stage_, actions_[k]);
    if (!to) return;
    events_.push_back({Kind::send, actions_[k], to->offset});
    sent_.push_back(k);
  }

  void release() {
    events_.push_back({Kind::release, actions_[sent_.front()]});
    sent_.pop_front();
  }

  struct Direction {
    std::int64_t received = 0;           ///< receives issued
    std::vector<std::int32_t> consumed;  ///< events that used what was received, in order
  };

  const ScheduleShape& shape_;
  std::int64_t group_;
  StageId stage_;
  std::vector<Action> actions_;
  std::size_t first_pair_;    ///< actions before it run one by one
  std::vector<PostedReceive> receives_;
  std::vector<ScheduleEvent> events_;
  std::array<Direction, 2> directions_;
  std::deque<std::size_t> sent_;
};

}  // namespace

namespace {

std::vector<ScheduleEvent> fixed_events(ScheduleKind kind, const ScheduleShape& shape, StageId stage) {
  std::vector<Action> actions = fixed_order(kind, shape, stage);
  if (has_exchanges(kind, shape)) return ExchangeWriter(shape, stage, std::move(actions)).write();
  return EventWriter(kind, shape, stage, std::move(actions)).write();
}

}  // namespace

std::optional<Neighbour> input_from(const ScheduleShape& shape, StageId stage, const Action& action) {
  if (action.phase == Phase::weight) return std::nullopt;
  return neighbour(shape, stage, action, action.phase == Phase::forward ? -1 : 1);
}

std::optional<Neighbour> output_to(const ScheduleShape& shape, StageId stage, const Action& action) {
  if (action.phase == Phase::weight) return std::nullopt;
  return neighbour(shape, stage, action, action.phase == Phase::forward ? 1 : -1);
}

std::vector<ScheduleEvent> make_events(ScheduleKind kind, const ScheduleShape& shape, StageId stage) {
  require(stage.value() >= 0 && stage.value() < shape.stages, "a schedule of a stage that is not there");
  if (folds(kind)) return std::move(timed_events(shape, make_orders(kind, shape))[stage.index()]);
  if (const auto orders = automatic_orders(kind, shape)) return std::move(timed_events(shape, *orders)[stage.index()]);
  return fixed_events(kind, shape, stage);
}

std::vector<std::vector<ScheduleEvent>> make_events(ScheduleKind kind, const ScheduleShape& shape) {
  if (folds(kind)) return timed_events(shape, make_orders(kind, shape));
  if (const auto orders = automatic_orders(kind, shape)) return timed_events(shape, *orders);
  std::vector<std::vector<ScheduleEvent>> all;
  for (std::int32_t s = 0; s < shape.stages; ++s)
    all.push_back(fixed_events(kind, shape, StageId(s)));
  return all;
}

std::vector<ScheduleEvent> make_forward_events(ScheduleKind kind, const ScheduleShape& shape, StageId stage) {
  const auto not_forward = [](const Action& a) { return a.phase != Phase::forward; };
  if (folds(kind)) {
    Orders orders = make_orders(kind, shape);
    for (auto& order : orders) std::erase_if(order, not_forward);
    return std::move(timed_events(shape, orders)[stage.index()]);
  }
  std::vector<Action> actions = fixed_order(kind, shape, stage);
  std::erase_if(actions, not_forward);
  return EventWriter(kind, shape, stage, std::move(actions)).write();
}

namespace {

/// Index of the next computation after event `i`; nothing after the last.
const Action* next_action(const std::vector<ScheduleEvent>& events, std::size_t i) {
  const auto next = std::find_if(events.begin() + static_cast<std::ptrdiff_t>(i) + 1, events.end(),
                                 [](const ScheduleEvent& e) { return e.kind == ScheduleEvent::Kind::compute; });
  return next == events.end() ? nullptr : &next->action;
}

}  // namespace

bool backward_follows(const std::vector<ScheduleEvent>& events, std::size_t i) {
  const Action *now = &events[i].action, *next = next_action(events, i);
  return next != nullptr && next->phase == Phase::backward && next->micro_batch == now->micro_batch && next->chunk == now->chunk;
}

bool same_follows(const std::vector<ScheduleEvent>& events, std::size_t i) {
  const Action *now = &events[i].action, *next = next_action(events, i);
  return next != nullptr && next->phase == now->phase && next->chunk == now->chunk;
}

}  // namespace tandem
