// Orders played by their costs, and what stages issue so that all follow one order.

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "models/schedule/zero_bubble.hpp"

namespace tandem {
namespace {

using Kind = ScheduleEvent::Kind;

std::size_t direction(const Action& a) { return a.phase == Phase::forward ? 0 : 1; }

/// A stage's place in its order, and when each pass ended: by direction, then micro-batch.
struct Playing {
  std::size_t next = 0;
  std::int64_t first = -1, free = 0;
  std::array<std::vector<std::int64_t>, 2> ended;
};

class OrderPlayer {
 public:
  OrderPlayer(const ScheduleShape& shape, const Orders& orders) : shape_(shape), orders_(orders), stages_(orders.size()) {
    for (Playing& s : stages_)
      for (auto& list : s.ended) list.assign(static_cast<std::size_t>(shape.micro_batches), -1);
    for (const auto& order : orders) {
      out_.ends.emplace_back().reserve(order.size());
      out_.arrives.emplace_back().reserve(order.size());
    }
  }

  PlayedOrders play() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < stages_.size(); ++s)
        while (step(s)) moved = true;
    }
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      require(stages_[s].next == orders_[s].size(), "a schedule is stuck");
      out_.longest = std::max(out_.longest, stages_[s].free - stages_[s].first);
      out_.end = std::max(out_.end, stages_[s].free);
    }
    return std::move(out_);
  }

 private:
  bool step(std::size_t s) {
    Playing& x = stages_[s];
    if (x.next == orders_[s].size()) return false;
    const Action& a = orders_[s][x.next];
    std::int64_t start = x.free, arrives = -1;
    if (const auto from = input_from(shape_, StageId(static_cast<std::int32_t>(s)), a)) {
      const std::int64_t made = stages_[s + static_cast<std::size_t>(from->offset)].ended[direction(a)][batch(a)];
      if (made < 0) return false;
      const bool used = a.micro_batch >= kReceiveBuffers;
      arrives = used ? std::max(made, x.ended[direction(a)][batch(a) - kReceiveBuffers]) : made;
      start = std::max(start, arrives + shape_.transfer);
    } else if (a.phase == Phase::backward) {
      start = std::max(start, x.ended[0][batch(a)]);
    }
    if (x.first < 0) x.first = start;
    const PassCosts& c = shape_.costs[s];
    x.free = start + (a.phase == Phase::forward ? c.forward : a.phase == Phase::backward ? c.backward : c.weight);
    if (a.phase != Phase::weight) x.ended[direction(a)][batch(a)] = x.free;
    out_.ends[s].push_back(x.free);
    out_.arrives[s].push_back(arrives);
    ++x.next;
    return true;
  }
  static std::size_t batch(const Action& a) { return static_cast<std::size_t>(a.micro_batch); }

  const ScheduleShape& shape_;
  const Orders& orders_;
  std::vector<Playing> stages_;
  PlayedOrders out_;
};

/// An event with its place in the order of everything: by time, computations before transfers, forward ones before backward ones,
/// by micro-batch.
struct Timed {
  std::int64_t place;
  ScheduleEvent event;
};

class TimedWriter {
 public:
  TimedWriter(const ScheduleShape& shape, const Orders& orders)
      : shape_(with_room(shape)), orders_(orders), played_(play_orders(shape_, orders)) {
    for (std::size_t s = 0; s < orders.size(); ++s) {
      by_stage_.emplace_back().reserve(3 * orders[s].size());
      for (std::size_t k = 0; k < orders[s].size(); ++k)
        by_stage_[s].push_back(at(played_.ends[s][k], {Kind::compute, orders[s][k]}));
    }
    for (std::size_t s = 0; s < orders.size(); ++s) add_transfers(s);
  }

  std::vector<std::vector<ScheduleEvent>> write() {
    std::vector<std::vector<ScheduleEvent>> all;
    for (auto& list : by_stage_) {
      std::sort(list.begin(), list.end(), [](const Timed& a, const Timed& b) { return a.place < b.place; });
      all.push_back(with_credits(list));
    }
    return all;
  }

 private:
  Timed at(std::int64_t time, const ScheduleEvent& e) const {
    const std::int64_t kind = e.kind == Kind::compute ? 0 : e.action.phase == Phase::forward ? 1 : 2;
    return {(3 * time + kind) * shape_.micro_batches + e.action.micro_batch, e};
  }

  /// What stage `s` receives, at both ends.
  void add_transfers(std::size_t s) {
    for (std::size_t k = 0; k < orders_[s].size(); ++k) {
      const Action& a = orders_[s][k];
      const auto from = input_from(shape_, StageId(static_cast<std::int32_t>(s)), a);
      if (!from) continue;
      const std::int64_t time = played_.arrives[s][k];
      by_stage_[s].push_back(at(time, {Kind::receive, a, from->offset}));
      by_stage_[s + static_cast<std::size_t>(from->offset)].push_back(at(time, {Kind::send, from->action, -from->offset}));
    }
  }

  /// Receives name what frees their buffers, and what was sent is handed on.
  static std::vector<ScheduleEvent> with_credits(const std::vector<Timed>& list) {
    std::vector<ScheduleEvent> events;
    events.reserve(list.size() + list.size() / 3);
    std::array<std::vector<std::int32_t>, 2> used;  // by direction and micro-batch
    std::deque<std::pair<std::size_t, Action>> sent;
    std::size_t computed = 0;
    const auto release = [&](std::size_t until) {
      for (; !sent.empty() && sent.front().first <= until; sent.pop_front()) events.push_back({Kind::release, sent.front().second});
    };
    for (const Timed& t : list) {
      ScheduleEvent e = t.event;
      const auto here = static_cast<std::int32_t>(events.size());
      const std::int64_t holder = e.action.micro_batch - kReceiveBuffers;
      if (e.kind == Kind::receive && holder >= 0) e.credit = used[direction(e.action)].at(static_cast<std::size_t>(holder));
      events.push_back(e);
      if (e.kind == Kind::send) sent.emplace_back(computed, e.action);
      if (e.kind != Kind::compute) continue;
      if (e.action.phase != Phase::weight) used[direction(e.action)].push_back(here);
      ++computed;
      if (computed > kSendHold) release(computed - kSendHold);
    }
    release(computed);
    return events;
  }

  ScheduleShape shape_;
  const Orders& orders_;
  PlayedOrders played_;
  std::vector<std::vector<Timed>> by_stage_;
};

}  // namespace

PlayedOrders play_orders(const ScheduleShape& shape, const Orders& orders) { return OrderPlayer(shape, orders).play(); }

std::vector<std::vector<ScheduleEvent>> timed_events(const ScheduleShape& shape, const Orders& orders) {
  return TimedWriter(shape, orders).write();
}

}  // namespace tandem
