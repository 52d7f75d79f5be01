// Simulates orders by their costs, and builds events in one order that all stages follow.

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>

#include "models/schedule/zero_bubble.hpp"

namespace tandem {
namespace {

using Kind = ScheduleEvent::Kind;

std::size_t direction(const Action& a) { return a.phase == Phase::forward ? 0 : 1; }

/// A stage's position in its order, and end times of passes by direction, then micro-batch, then chunk.
struct Playing {
  std::size_t next = 0;
  std::int64_t first = -1, free = 0;
  std::array<std::vector<std::int64_t>, 2> ended;
};

/// Number of actions of a stage from `k` on between which nothing is sent or received.
std::size_t together(const ScheduleShape& shape, const Orders& orders, std::size_t stage, std::size_t k) {
  if (!shape.folded) return 1;
  const std::vector<Action>& order = orders[stage];
  const bool turn = k + 1 < order.size() && order[k].phase == Phase::forward && order[k + 1].whole;  // DualPipeV's
  const StageId id(static_cast<std::int32_t>(stage));
  return turn && k >= first_pair(ScheduleKind::dualpipe_v, shape, id) ? 2 : 1;
}

ScheduleShape with_even_costs(ScheduleShape shape) {
  if (shape.costs.empty()) shape.costs.resize(static_cast<std::size_t>(shape.stages));
  return shape;
}

class OrderPlayer {
 public:
  OrderPlayer(const ScheduleShape& shape, const Orders& orders)
      : shape_(with_even_costs(shape)), orders_(orders), stages_(orders.size()) {
    for (Playing& s : stages_)
      for (auto& list : s.ended) list.assign(static_cast<std::size_t>(shape.micro_batches * shape.chunks), -1);
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
    const std::size_t passes = together(shape_, orders_, s, x.next);
    std::int64_t start = x.free;
    std::array<std::int64_t, 2> arrives{};
    for (std::size_t i = 0; i < passes; ++i) {
      const std::optional<std::int64_t> there = input(s, orders_[s][x.next + i], arrives[i]);
      if (!there) return false;
      start = std::max(start, *there);
    }
    if (x.first < 0) x.first = start;
    x.free = start;
    for (std::size_t i = 0; i < passes; ++i) x.free += time(s, orders_[s][x.next + i]);
    for (std::size_t i = 0; i < passes; ++i) {
      const Action& a = orders_[s][x.next++];
      if (a.phase != Phase::weight) x.ended[direction(a)][place(a)] = x.free;
      out_.ends[s].push_back(x.free);
      out_.arrives[s].push_back(arrives[i]);
    }
    return true;
  }

  /// When the input of `a` is there, and when its transfer starts (-1: no transfer). Nothing if its producer has not run.
  std::optional<std::int64_t> input(std::size_t s, const Action& a, std::int64_t& arrives) const {
    const Playing& x = stages_[s];
    arrives = -1;
    if (a.phase == Phase::weight) return 0;
    if (const auto from = input_from(shape_, StageId(static_cast<std::int32_t>(s)), a)) {
      const Playing& sender = stages_[s + static_cast<std::size_t>(static_cast<std::ptrdiff_t>(from->offset))];
      arrives = sender.ended[direction(a)][place(from->action)];
      if (arrives < 0) return std::nullopt;
      if (a.micro_batch >= kReceiveBuffers) {
        const std::int64_t used = x.ended[direction(a)][place(a) - static_cast<std::size_t>(kReceiveBuffers * shape_.chunks)];
        arrives = std::max(arrives, used);
      }
      return arrives + shape_.transfer * shape_.chunks;  // costs are those of whole stages
    }
    return a.phase == Phase::backward ? x.ended[0][place(a)] : 0;
  }
  std::int64_t time(std::size_t s, const Action& a) const {
    const PassCosts& c = shape_.costs[s];
    if (a.phase == Phase::forward) return c.forward;
    return a.phase == Phase::weight ? c.weight : c.backward + (a.whole ? c.weight : 0);
  }
  std::size_t place(const Action& a) const { return static_cast<std::size_t>(a.micro_batch * shape_.chunks + a.chunk); }

  const ScheduleShape shape_;
  const Orders& orders_;
  std::vector<Playing> stages_;
  PlayedOrders out_;
};

/// An event with its position in the global order: by time, computations
/// before transfers, forward before backward, then micro-batch, then chunk.
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
      for (std::size_t k = 0; k < orders[s].size(); ++k) {
        ScheduleEvent e{Kind::compute, orders[s][k]};
        e.with_next = together(shape_, orders, s, k) == 2;
        by_stage_[s].push_back(at(played_.ends[s][k], e));
      }
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
    const std::int64_t kind = (e.kind == Kind::compute ? 0 : 2) + (e.action.phase == Phase::forward ? 0 : 1);
    return {((4 * time + kind) * shape_.micro_batches + e.action.micro_batch) * shape_.chunks + e.action.chunk, e};
  }

  /// Both ends of the transfers that stage `s` receives.
  void add_transfers(std::size_t s) {
    for (std::size_t k = 0; k < orders_[s].size(); ++k) {
      const Action& a = orders_[s][k];
      const auto from = input_from(shape_, StageId(static_cast<std::int32_t>(s)), a);
      if (!from) continue;
      const std::int64_t time = played_.arrives[s][k];
      by_stage_[s].push_back(at(time, {Kind::receive, {a.phase, a.micro_batch, a.chunk}, from->offset}));
      by_stage_[s + static_cast<std::size_t>(from->offset)].push_back(at(time, {Kind::send, from->action, -from->offset}));
    }
  }

  /// Sets the credits of receives, and adds releases of sent buffers.
  std::vector<ScheduleEvent> with_credits(const std::vector<Timed>& list) const {
    std::vector<ScheduleEvent> events;
    events.reserve(list.size() + list.size() / 3);
    // By direction and chunk, then micro-batch.
    std::vector<std::vector<std::int32_t>> used(2 * static_cast<std::size_t>(shape_.chunks));
    const auto uses = [&](const Action& a) -> auto& { return used[2 * static_cast<std::size_t>(a.chunk) + direction(a)]; };
    std::deque<std::pair<std::size_t, Action>> sent;
    std::size_t computed = 0;
    const auto release = [&](std::size_t until) {
      for (; !sent.empty() && sent.front().first <= until; sent.pop_front()) events.push_back({Kind::release, sent.front().second});
    };
    for (const Timed& t : list) {
      ScheduleEvent e = t.event;
      const auto here = static_cast<std::int32_t>(events.size());
      const std::int64_t holder = e.action.micro_batch - kReceiveBuffers;
      if (e.kind == Kind::receive && holder >= 0) e.credit = uses(e.action).at(static_cast<std::size_t>(holder));
      events.push_back(e);
      if (e.kind == Kind::send) sent.emplace_back(computed, e.action);
      if (e.kind != Kind::compute) continue;
      if (e.action.phase != Phase::weight) uses(e.action).push_back(here);
      ++computed;
      if (!e.with_next && computed > kSendHold) release(computed - kSendHold);
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
