#include "models/schedule/zero_bubble.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace tandem {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// How late a weight pass may end, in quarters of its time.
constexpr std::int64_t kQuarters[] = {2, 3, 4};

std::int64_t held(const PassCosts& c, std::int64_t forwards, std::int64_t backwards, std::int64_t weights) {
  return (forwards - backwards) * c.held + (backwards - weights) * c.deferred;
}

/// Fills the gaps of all stages in time order.
class GapFiller {
 public:
  GapFiller(const ScheduleShape& shape, std::vector<std::int64_t> limits, std::int64_t ahead, std::int64_t quarters)
      : shape_(shape), limits_(std::move(limits)), ahead_(ahead), quarters_(quarters),
        stages_(static_cast<std::size_t>(shape.stages)), next_(stages_.size(), kNever) {
    const auto m = static_cast<std::size_t>(shape.micro_batches);
    for (Stage& s : stages_) {
      s.forward_in.assign(m, kNever);
      s.backward_in.assign(m, kNever);
      s.forward_start.reserve(m);
      s.order.reserve(3 * m);
    }
    stages_.front().forward_in.assign(m, 0);
    next_.front() = 0;
  }

  Orders fill() {
    for (std::int64_t left = 3 * shape_.stages * shape_.micro_batches; left > 0; --left) {
      const std::int64_t now = *std::min_element(next_.begin(), next_.end());
      require(now < kNever, "a zero-bubble order is stuck");
      const auto s = static_cast<std::size_t>(std::find(next_.begin(), next_.end(), now) - next_.begin());
      act(s);
      for (std::size_t t = s == 0 ? 0 : s - 1; t <= s + 1 && t < stages_.size(); ++t) next_[t] = earliest(t);
    }
    Orders orders;
    for (Stage& s : stages_) orders.push_back(std::move(s.order));
    return orders;
  }

 private:
  struct Stage {
    std::int64_t forwards = 0, backwards = 0, weights = 0, free = 0;
    std::vector<std::int64_t> forward_in, backward_in;  ///< arrival times of a micro-batch's inputs
    std::vector<std::int64_t> forward_start;
    std::vector<Action> order;
  };
  const PassCosts& costs(std::size_t s) const { return shape_.costs[s]; }

  std::int64_t forward_from(std::size_t s) const {
    const Stage& x = stages_[s];
    const PassCosts& c = costs(s);
    if (x.forwards == shape_.micro_batches) return kNever;
    // Reserves room for what the backward pass leaves, if that is more.
    const std::int64_t then = held(c, x.forwards + 1, x.backwards, x.weights) + std::max(0, c.deferred - c.held);
    const std::int64_t in = x.forward_in[static_cast<std::size_t>(x.forwards)];
    if (then > limits_[s] || in == kNever) return kNever;
    const std::int64_t paced = x.forwards - ahead_;
    if (s + 1 == stages_.size() || paced < 0) return std::max(x.free, in);
    const Stage& after = stages_[s + 1];
    if (paced >= after.forwards) return kNever;
    return std::max({x.free, in, after.forward_start[static_cast<std::size_t>(paced)]});
  }

  std::int64_t backward_from(std::size_t s) const {
    const Stage& x = stages_[s];
    if (x.backwards == x.forwards) return kNever;
    const std::int64_t then = held(costs(s), x.forwards, x.backwards + 1, x.weights);
    if (then > limits_[s] && x.weights < x.backwards) return kNever;  // a weight pass first
    const std::int64_t in = x.backward_in[static_cast<std::size_t>(x.backwards)];
    return in == kNever ? kNever : std::max(x.free, in);
  }

  std::int64_t weight_from(std::size_t s) const {
    const Stage& x = stages_[s];
    return x.weights < x.backwards ? x.free : kNever;
  }

  std::int64_t earliest(std::size_t s) const { return std::min({forward_from(s), backward_from(s), weight_from(s)}); }

  void act(std::size_t s) {
    const std::int64_t f = forward_from(s), b = backward_from(s), now = next_[s];
    if (b <= now) return backward(s, b);
    if (f <= now) return forward(s, f);
    const std::int64_t arrival = std::min(f, b), end = now + costs(s).weight;
    const bool late = arrival != kNever && 4 * (end - arrival) > quarters_ * costs(s).weight;
    if (!late) return weight(s);
    b <= f ? backward(s, b) : forward(s, f);
  }

  void forward(std::size_t s, std::int64_t start) {
    Stage& x = stages_[s];
    const auto i = static_cast<std::size_t>(x.forwards++);
    x.order.push_back({Phase::forward, static_cast<std::int32_t>(i), 0});
    x.forward_start.push_back(start);
    x.free = start + costs(s).forward;
    if (s + 1 < stages_.size()) stages_[s + 1].forward_in[i] = x.free + shape_.transfer;
    else x.backward_in[i] = x.free;
  }
  void backward(std::size_t s, std::int64_t start) {
    Stage& x = stages_[s];
    const auto i = static_cast<std::size_t>(x.backwards++);
    x.order.push_back({Phase::backward, static_cast<std::int32_t>(i), 0});
    x.free = start + costs(s).backward;
    if (s > 0) stages_[s - 1].backward_in[i] = x.free + shape_.transfer;
  }
  void weight(std::size_t s) {
    Stage& x = stages_[s];
    x.order.push_back({Phase::weight, static_cast<std::int32_t>(x.weights++), 0});
    x.free += costs(s).weight;
  }

  const ScheduleShape& shape_;
  std::vector<std::int64_t> limits_;  ///< by stage
  std::int64_t ahead_, quarters_;
  std::vector<Stage> stages_;
  std::vector<std::int64_t> next_;  ///< by stage: when it can act
};

/// Peak memory of `order`, in units of `costs`.
std::int64_t most_held(const PassCosts& costs, const std::vector<Action>& order) {
  std::int64_t now = 0, most = 0;
  for (const Action& a : order) {
    if (a.phase == Phase::forward) now += costs.held;
    if (a.phase == Phase::backward) now += costs.deferred - costs.held;
    if (a.phase == Phase::weight) now -= costs.deferred;
    most = std::max(most, now);
  }
  return most;
}

ScheduleShape with_transfer(ScheduleShape shape, std::int32_t transfer) {
  shape.transfer = transfer;
  return shape;
}

/// Whether orders are no slower than `handcrafted` with free transfers and with those of with_room.
class NoSlower {
 public:
  NoSlower(const ScheduleShape& shape, const Orders& handcrafted) {
    for (const std::int32_t transfer : {std::int32_t{0}, with_room(shape).transfer}) {
      shapes_.push_back(with_transfer(shape, transfer));
      limits_.push_back(play_orders(shapes_.back(), handcrafted));
    }
  }

  bool operator()(const Orders& orders) const {
    for (std::size_t i = 0; i < shapes_.size(); ++i)
      if (const PlayedOrders p = play_orders(shapes_[i], orders); p.end > limits_[i].end || p.longest > limits_[i].longest)
        return false;
    return true;
  }

 private:
  std::vector<ScheduleShape> shapes_;
  std::vector<PlayedOrders> limits_;
};

}  // namespace

ScheduleShape with_room(const ScheduleShape& shape) { return with_transfer(shape, 3 * shape.transfer); }

bool passes_differ(const ScheduleShape& shape) {
  return std::any_of(shape.costs.begin(), shape.costs.end(), [&](const PassCosts& c) {
    const std::int32_t all = shape.costs.front().forward;
    return c.forward != all || c.backward != all || c.weight != all;
  });
}

std::optional<Orders> fill_gaps(const ScheduleShape& shape, std::int64_t micro_batches, std::int64_t ahead,
                                const Orders& handcrafted) {
  std::vector<std::int64_t> limits;
  for (std::size_t s = 0; s < handcrafted.size(); ++s)
    limits.push_back(std::max(micro_batches * shape.costs[s].held, most_held(shape.costs[s], handcrafted[s])));
  std::optional<Orders> best;
  const PlayedOrders first = play_orders(shape, handcrafted);
  const NoSlower no_slower(shape, handcrafted);
  PlayedOrders least = first;
  const auto goal = [&](const PlayedOrders& p) {
    return shape.steps_overlap ? std::pair(p.longest, p.end) : std::pair(p.end, p.longest);
  };
  for (const std::int64_t quarters : kQuarters) {
    Orders filled = GapFiller(shape, limits, ahead, quarters).fill();
    PlayedOrders played = play_orders(shape, filled);
    if (played.end > first.end || played.longest > first.longest || goal(played) >= goal(least)) continue;
    if (!no_slower(filled)) continue;
    least = std::move(played);
    best = std::move(filled);
  }
  return best;
}

}  // namespace tandem
