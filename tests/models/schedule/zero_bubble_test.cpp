// Automatic zero-bubble orders: legal, within their memory, never slower than the handcrafted ones, and how near to the best.
#include "models/schedule/zero_bubble.hpp"

#include <map>
#include <random>
#include <tuple>

#include "models/schedule/pass_work.hpp"
#include "tests/catch.hpp"
#include "tests/schedule_rendezvous.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

constexpr ScheduleKind kKinds[] = {ScheduleKind::zb_h1, ScheduleKind::zb_h2};

ScheduleShape equal_stages(std::int64_t p, std::int64_t m, const PassCosts& c, std::int32_t transfer = 0) {
  return {p, m, 1, std::vector<PassCosts>(static_cast<std::size_t>(p), c), transfer};
}

ScheduleShape without_costs(const ScheduleShape& s) { return {s.stages, s.micro_batches}; }

Machine machine_of(const ScheduleShape& shape) {
  Machine m{shape.stages, 1, shape.transfer, {}};
  m.time = [costs = shape.costs](std::int64_t s, const Action& a) -> std::int64_t {
    const PassCosts& c = costs[static_cast<std::size_t>(s)];
    return a.phase == Phase::forward ? c.forward : a.phase == Phase::backward ? c.backward : c.weight;
  };
  return m;
}

/// By the test's own list scheduler.
struct Times {
  std::int64_t longest = 0, end = 0;
};
Times times_of(const ScheduleShape& shape, const Orders& orders) {
  const auto played = list_schedule(orders, machine_of(shape));
  REQUIRE(played);
  Times t{0, makespan(*played)};
  for (const auto& stage : *played) t.longest = std::max(t.longest, stage.back().end - stage.front().start);
  return t;
}

/// Most that is held at once, counted apart from models/schedule/zero_bubble: by micro-batch and what it has done.
std::int64_t most_bytes(const PassCosts& c, const std::vector<Action>& order) {
  std::map<std::int32_t, std::int64_t> bytes;
  std::int64_t most = 0;
  for (const Action& a : order) {
    bytes[a.micro_batch] = a.phase == Phase::forward ? c.held : a.phase == Phase::backward ? c.deferred : 0;
    std::int64_t sum = 0;
    for (const auto& [batch, held] : bytes) sum += held;
    most = std::max(most, sum);
  }
  return most;
}

bool each_pass_once_ascending(const ScheduleShape& shape, const std::vector<Action>& order) {
  std::map<Phase, std::int32_t> next;
  for (const Action& a : order)
    if (a.micro_batch != next[a.phase]++) return false;
  return next.size() == 3 && next[Phase::forward] == shape.micro_batches && next[Phase::backward] == shape.micro_batches &&
         next[Phase::weight] == shape.micro_batches;
}

/// tF, tB, tW, and memory before and after the backward pass: flash attention, a score matrix, full recomputation, odd ones.
const PassCosts kCosts[] = {{32, 32, 24, 32, 31}, {32, 32, 16, 32, 12}, {20, 32, 14, 2, 32}, {1, 2, 1, 1, 1},
                            {7, 5, 9, 3, 4},      {16, 32, 16, 32, 32}, {3, 1, 1, 5, 2},     {1, 1, 2, 1, 1}};

template <class F>
void for_every_cost(F&& f) {
  for (const auto kind : kKinds)
    for (const std::int64_t p : {2, 3, 4, 8})
      for (const std::int64_t m : {std::int64_t{1}, p - 1, p, 2 * p - 1, 3 * p + 1})
        for (const PassCosts& c : kCosts)
          for (const std::int32_t transfer : {0, 1}) f(kind, equal_stages(p, m, c, transfer));
}

ScheduleShape random_shape(std::mt19937& random) {
  const auto upto = [&](int n) { return 1 + static_cast<std::int32_t>(random() % static_cast<unsigned>(n)); };
  ScheduleShape s{1 + upto(7), upto(24)};
  for (std::int64_t i = 0; i < s.stages; ++i) s.costs.push_back({upto(32), upto(32), upto(32), upto(32), upto(32)});
  s.transfer = upto(4) - 1;
  s.steps_overlap = random() % 2 == 0;
  return s;
}

void check_order(ScheduleKind kind, const ScheduleShape& shape) {
  const Orders orders = make_orders(kind, shape), fixed = make_orders(kind, without_costs(shape));
  const std::int64_t room = (kind == ScheduleKind::zb_h1 ? 1 : 2) * shape.stages;
  for (std::size_t s = 0; s < orders.size(); ++s) {
    CHECK(each_pass_once_ascending(shape, orders[s]));
    CHECK(most_bytes(shape.costs[s], orders[s]) <= std::max(room * shape.costs[s].held, most_bytes(shape.costs[s], fixed[s])));
    CHECK(make_schedule(kind, shape, StageId(static_cast<std::int32_t>(s))) == orders[s]);
  }
  const Times automatic = times_of(shape, orders), handcrafted = times_of(shape, fixed);
  CHECK(automatic.end <= handcrafted.end);
  CHECK(automatic.longest <= handcrafted.longest);
}

}  // namespace

TEST_CASE("passes that take the same have the handcrafted order, whatever a micro-batch holds") {
  for_every_shape([](ScheduleKind kind, const ScheduleShape& shape) {
    if (!splits_backwards(kind) || folds(kind)) return;
    for (const std::int32_t deferred : {1, 3, 7}) {
      const ScheduleShape same = equal_stages(shape.stages, shape.micro_batches, {4, 4, 4, 4, deferred}, 1);
      CHECK(make_orders(kind, same) == orders_of(kind, shape));
      CHECK(make_events(kind, same) == issues_of(kind, shape));
    }
  });
}

TEST_CASE("an automatic order does each pass once, ascending, keeps to its memory and is not slower than the handcrafted one") {
  for_every_cost([](ScheduleKind kind, const ScheduleShape& shape) {
    const PassCosts& c = shape.costs.front();
    INFO(name(kind) << " p " << shape.stages << " m " << shape.micro_batches << " costs " << c.forward << " " << c.backward << " "
                    << c.weight << " " << c.held << " " << c.deferred);
    check_order(kind, shape);
  });
}

TEST_CASE("so does one of stages that differ") {
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    const ScheduleShape shape = random_shape(random);
    INFO(i << " p " << shape.stages << " m " << shape.micro_batches);
    for (const auto kind : kKinds) check_order(kind, shape);
  }
}

TEST_CASE("transfers of an automatic order are a rendezvous that never hangs, whatever passes really take") {
  std::mt19937 random(12);
  for (int i = 0; i < 300; ++i) {
    const ScheduleShape shape = random_shape(random);
    INFO(i << " p " << shape.stages << " m " << shape.micro_batches);
    for (const auto kind : kKinds) {
      const Issues issues = make_events(kind, shape);
      const Machine planned = machine_of(shape);
      Machine other{shape.stages, 1, static_cast<std::int64_t>(random() % 40), {}};
      std::map<std::pair<std::int64_t, Phase>, std::int64_t> ticks;
      for (std::int64_t s = 0; s < shape.stages; ++s)
        for (const Phase phase : {Phase::forward, Phase::backward, Phase::weight})
          ticks[{s, phase}] = 1 + static_cast<std::int64_t>(random() % 30);
      other.time = [&](std::int64_t s, const Action& a) { return ticks.at({s, a.phase}); };
      for (const auto host : {IssuedBy::launching_host, IssuedBy::computing_host}) {
        CHECK(Rendezvous(issues, planned, host).play());
        CHECK(Rendezvous(issues, other, host).play());
      }
      for (std::size_t s = 0; s < issues.size(); ++s)
        CHECK(make_events(kind, shape, StageId(static_cast<std::int32_t>(s))) == issues[s]);
    }
  }
}

TEST_CASE("what is played is what the orders take, with two receive buffers and a transfer at a time") {
  // The rendezvous knows neither the play nor its times; a stream of its own that transfers take turns in can only be later.
  for_every_cost([](ScheduleKind kind, const ScheduleShape& shape) {
    const PlayedOrders played = play_orders(shape, make_orders(kind, shape));
    const auto met = Rendezvous(make_events(kind, shape), machine_of(shape), IssuedBy::launching_host).play();
    REQUIRE(met);
    if (shape.transfer == 0) CHECK(makespan(*met) == played.end);
    else CHECK(makespan(*met) >= played.end);
    // Most where a transfer is half the longest pass, for three of which they are placed.
    CHECK(makespan(*met) * 100 <= played.end * 106);
  });
}

TEST_CASE("streams of an automatic order cost little that the handcrafted one has, for transfers of up to half a pass, planned for or not") {
  // The handcrafted order by the test's list scheduler: any number of buffers, and transfers at once. Streams that are in each
  // other's way cost a share of every micro-batch: transfers placed for what was planned took up to a third more.
  for (const auto kind : kKinds)
    for (const std::int64_t p : {4, 8})
      for (const std::int64_t m : {24, 96})
        for (const PassCosts& last : {PassCosts{20, 32, 4, 32, 22}, PassCosts{22, 32, 14, 32, 11}, PassCosts{12, 15, 4, 32, 22}})
          for (const std::int32_t transfer : {1, 3, 6, 9}) {
            ScheduleShape shape = equal_stages(p, m, {12, 15, last.weight, 32, last.deferred}, transfer);
            shape.costs.back() = last;
            Machine machine = machine_of(shape);
            for (machine.latency = 0; machine.latency <= std::min(3 * transfer, last.backward / 2); machine.latency += transfer) {
              const auto met = Rendezvous(make_events(kind, shape), machine, IssuedBy::launching_host).play();
              const auto alone = list_schedule(make_orders(kind, without_costs(shape)), machine);
              CAPTURE(name(kind), p, m, last.forward, last.weight, transfer, machine.latency, makespan(*met), makespan(*alone));
              CHECK(makespan(*met) * 100 <= makespan(*alone) * 105);
            }
          }
}

TEST_CASE("with short weight passes that hold little ZB-2p leaves a quarter of ZB-H2's gaps") {
  // tF : tB : tW as of a block with dropout and a score matrix (5as/h of 34 + 5as/h bytes are free after the backward pass,
  // arXiv 2205.05198), 2 p micro-batches or more of a stage's 2 p.
  for (const std::int64_t p : {4, 8, 16})
    for (const std::int64_t rounds : {4, 8}) {
      ScheduleShape shape = equal_stages(p, rounds * p, {32, 32, 20, 32, 16}, 1);
      shape.steps_overlap = true;
      const auto gaps = [&](const Orders& orders) { return times_of(shape, orders).longest - shape.micro_batches * 84; };
      const std::int64_t handcrafted = gaps(make_orders(ScheduleKind::zb_h2, without_costs(shape)));
      const std::int64_t automatic = gaps(make_orders(ScheduleKind::zb_h2, shape));
      CAPTURE(p, rounds, handcrafted, automatic);
      CHECK(4 * automatic <= handcrafted);
    }
}

namespace {

/// All legal orders of one stage within `limit`.
void all_orders(const PassCosts& c, std::int64_t limit, std::int32_t m, std::array<std::int32_t, 3> done,
                std::vector<Action>& order, Orders& out) {
  if (done[2] == m) return out.push_back(order);
  constexpr Phase phases[] = {Phase::forward, Phase::backward, Phase::weight};
  for (std::size_t k = 0; k < 3; ++k) {
    if (done[k] == (k == 0 ? m : done[k - 1])) continue;
    order.push_back({phases[k], done[k], 0});
    ++done[k];
    if (most_bytes(c, order) <= limit) all_orders(c, limit, m, done, order, out);
    --done[k];
    order.pop_back();
  }
}

/// The earliest end of two stages with orders of their own, by trying all.
std::int64_t earliest_end(const ScheduleShape& shape, std::int64_t micro_batches) {
  const Orders fixed = make_orders(micro_batches > shape.stages ? ScheduleKind::zb_h2 : ScheduleKind::zb_h1, without_costs(shape));
  std::array<Orders, 2> all;
  for (std::size_t s = 0; s < 2; ++s) {
    std::vector<Action> order;
    const PassCosts& c = shape.costs[s];
    const std::int64_t limit = std::max(micro_batches * c.held, most_bytes(c, fixed[s]));
    all_orders(c, limit, static_cast<std::int32_t>(shape.micro_batches), {}, order, all[s]);
  }
  const Machine machine = machine_of(shape);
  std::int64_t least = INT64_MAX;
  for (const auto& first : all[0])
    for (const auto& second : all[1])
      if (const auto played = list_schedule({first, second}, machine)) least = std::min(least, makespan(*played));
  return least;
}

}  // namespace

TEST_CASE("of two stages and three micro-batches few automatic orders end later than the best there is, and by little") {
  int shapes = 0, best = 0;
  for (const PassCosts& c : kCosts)
    for (const auto kind : kKinds) {
      const ScheduleShape shape = equal_stages(2, 3, c);
      const std::int64_t end = times_of(shape, make_orders(kind, shape)).end;
      const std::int64_t least = earliest_end(shape, kind == ScheduleKind::zb_h1 ? 2 : 4);
      CAPTURE(name(kind), c.forward, c.backward, c.weight, c.held, c.deferred, end, least);
      CHECK(end >= least);
      CHECK(end * 10 <= least * 12);
      ++shapes;
      best += end == least;
    }
  UNSCOPED_INFO(best << " of " << shapes << " are the best");
  CHECK(best * 2 >= shapes);
}

TEST_CASE("costs are relative in 32 steps, none below one") {
  const ScheduleShape shape = with_costs({2, 4}, {{3200, 6400, 100, 10, 5}, {6300, 1, 3200, 0, 7}});
  REQUIRE(shape.costs.size() == 2);
  const auto same = [](const PassCosts& a, const PassCosts& b) {
    return std::tie(a.forward, a.backward, a.weight, a.held, a.deferred) ==
           std::tie(b.forward, b.backward, b.weight, b.held, b.deferred);
  };
  CHECK(same(shape.costs[0], {16, 32, 1, 32, 16}));
  CHECK(same(shape.costs[1], {32, 1, 16, 1, 32}));
  CHECK(shape.transfer == 1);
  CHECK(with_costs({2, 4}, {{3200, 6400, 100, 10, 5, 1600}, {6300, 1, 3200, 0, 7, 800}}).transfer == 8);
  CHECK_THROWS_AS(make_schedule(ScheduleKind::zb_h1, {3, 4, 1, shape.costs}, StageId(0)), ContractError);
}

TEST_CASE("2048 micro-batches on 64 stages have automatic orders of every action and transfer") {
  ScheduleShape shape = equal_stages(64, 2048, {32, 34, 20, 32, 20}, 1);
  std::size_t n = 0;
  for (const auto& events : make_events(ScheduleKind::zb_h2, shape)) n += events.size();
  CHECK(n == 64 * 3 * 2048 + 3 * 2 * 2048 * 63);
}
