// What stages issue, played with transfers as a rendezvous.
#include <set>
#include <tuple>

#include "tests/catch.hpp"
#include "tests/schedule_rendezvous.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

using Kind = ScheduleEvent::Kind;

Ticks ticks_of(ScheduleKind kind, const ScheduleShape& shape, std::int64_t latency) {
  return {10 * shape.chunks, (splits_backwards(kind) ? 10 : 20) * shape.chunks, 10, latency};
}

/// What a stage would issue if every receive were issued one action ahead, with unlimited buffers.
std::vector<ScheduleEvent> one_ahead(const ScheduleShape& shape, StageId stage, const std::vector<Action>& actions) {
  std::vector<ScheduleEvent> events;
  const auto receive = [&](std::size_t k) {
    if (k < actions.size() && input_from(shape, stage, actions[k])) events.push_back({Kind::receive, actions[k]});
  };
  receive(0);
  for (std::size_t k = 0; k < actions.size(); ++k) {
    receive(k + 1);
    events.push_back({Kind::compute, actions[k]});
    if (output_to(shape, stage, actions[k])) events.push_back({Kind::send, actions[k]});
  }
  return events;
}

Issues one_ahead(ScheduleKind kind, const ScheduleShape& shape) {
  Issues issues;
  for (int s = 0; s < shape.stages; ++s)
    issues.push_back(one_ahead(shape, StageId(s), make_schedule(kind, shape, StageId(s))));
  return issues;
}

}  // namespace

TEST_CASE("no schedule deadlocks with rendezvous, or is slower than with unlimited buffers") {
  // With equal stages. Interleaved forwards that are not urgent start later than they could, as two buffers hold them
  // up.
  for_every_shape([](ScheduleKind kind, const ScheduleShape& shape) {
    INFO(name(kind) << " p " << shape.stages << " m " << shape.micro_batches << " v " << shape.chunks);
    const Issues issues = issues_of(kind, shape);
    if (shape.stages == 1) return;
    for (const std::int64_t latency : {0, 1, 5}) {
      if (folds(kind) && latency > 0) continue;  // its transfers stand where they are when they take nothing
      const Machine machine = even_machine(shape, ticks_of(kind, shape, latency));
      const auto unlimited = list_schedule(orders_of(kind, shape), machine);
      for (const auto host : {IssuedBy::launching_host, IssuedBy::computing_host}) {
        const auto played = Rendezvous(issues, machine, host).play();
        REQUIRE(played);
        if (folds(kind)) continue;  // a pair waits for both inputs, with whatever buffers: dualpipe_test has its published time
        CHECK(makespan(*played) == makespan(*unlimited));
        if (kind != ScheduleKind::interleaved) CHECK((*played == *unlimited));
      }
    }
  });
}

TEST_CASE("ragged groups of more micro-batches, and more stages, do not deadlock either") {
  for (const std::int64_t p : {2, 3, 5, 11})
    for (std::int64_t m = p; m <= 4 * p + 1; ++m)
      for (const std::int64_t v : {2, 3}) {
        CAPTURE(p, m, v);
        const ScheduleShape shape{p, m, v};
        const Machine machine = even_machine(shape, ticks_of(ScheduleKind::interleaved, shape, 5));
        const auto played =
            Rendezvous(issues_of(ScheduleKind::interleaved, shape), machine, IssuedBy::computing_host).play();
        REQUIRE(played);
        CHECK(makespan(*played) == makespan(*list_schedule(orders_of(ScheduleKind::interleaved, shape), machine)));
      }
}

TEST_CASE("with every receive one action ahead two stages with groups of three deadlock, and nothing else") {
  for_every_shape([](ScheduleKind kind, const ScheduleShape& shape) {
    INFO(name(kind) << " p " << shape.stages << " m " << shape.micro_batches << " v " << shape.chunks);
    if (shape.stages == 1 || kind == ScheduleKind::breadth_first) return;  // whose one group is of all micro-batches
    if (folds(kind)) return;                                               // both ends would have other orders
    const Machine machine = even_machine(shape, ticks_of(kind, shape, 0));
    const bool hangs =
        shape.stages == 2 && shape.chunks > 1 && shape.micro_batches >= 5 && shape.micro_batches % 2 == 1;
    for (const auto host : {IssuedBy::launching_host, IssuedBy::computing_host})
      CHECK(Rendezvous(one_ahead(kind, shape), machine, host).play().has_value() == !hangs);
  });
  // Others with groups of more than p micro-batches are slower.
  const ScheduleShape shape{8, 15, 2};
  const Machine machine = even_machine(shape, ticks_of(ScheduleKind::interleaved, shape, 0));
  const auto slow = Rendezvous(one_ahead(ScheduleKind::interleaved, shape), machine, IssuedBy::computing_host).play();
  REQUIRE(slow);
  CHECK(makespan(*slow) > makespan(*list_schedule(orders_of(ScheduleKind::interleaved, shape), machine)));
}

namespace {

/// A transfer as one end has it: direction, micro-batch, from and to which part of the model.
using Message = std::tuple<Phase, std::int32_t, std::int64_t, std::int64_t>;
using Messages = std::multiset<Message>;

Message message(const ScheduleEvent& e, std::int64_t here, bool way_back = false) {
  const std::int64_t forwards = e.action.phase == Phase::forward ? 1 : -1;
  CHECK(e.offset == (e.kind == Kind::send ? forwards : -forwards) * (way_back ? -1 : 1));
  if (e.kind == Kind::send) return {e.action.phase, e.action.micro_batch, here, here + forwards};
  return {e.action.phase, e.action.micro_batch, here - forwards, here};
}

struct Mail {
  Messages sent, received;
};

/// Reads what a stage issues into the mail of all stages; returns its actions.
std::vector<Action> read(const std::vector<ScheduleEvent>& events, const Machine& machine, std::int64_t stage,
                         Mail& mail) {
  std::vector<Action> computed;
  std::int64_t unreleased = 0;
  for (const ScheduleEvent& e : events) {
    const bool way_back = machine.folded && e.action.chunk == 1;
    const auto done = std::find_if(computed.begin(), computed.end(), [&](const Action& a) {
      return a.phase == e.action.phase && a.micro_batch == e.action.micro_batch && a.chunk == e.action.chunk;
    });
    if (e.kind == Kind::compute) computed.push_back(e.action);
    if (e.kind == Kind::release) --unreleased;
    if (e.kind == Kind::send) {
      ++unreleased;
      CHECK((machine.folded ? done != computed.end() : computed.back() == e.action));
      mail.sent.insert(message(e, machine.part(stage, e.action), way_back));
    }
    if (e.kind != Kind::receive) continue;
    CHECK(done == computed.end());
    mail.received.insert(message(e, machine.part(stage, e.action), way_back));
  }
  CHECK(unreleased == 0);
  return computed;
}

}  // namespace

TEST_CASE("exchanges have every transfer once at both ends, none between passes in turn, and what is received waits for the pass before") {
  for (const std::int64_t p : {2, 3, 5})
    for (std::int64_t m = p; m <= 4 * p; m += p)
      for (const std::int64_t v : {2, 3}) {
        CAPTURE(p, m, v);
        ScheduleShape shape{p, m, v};
        shape.exchanges = true;
        REQUIRE(has_exchanges(ScheduleKind::interleaved, shape));
        const auto issues = make_events(ScheduleKind::interleaved, shape);
        Mail mail;
        for (std::int32_t s = 0; s < p; ++s) {
          std::vector<Action> computed;
          std::int32_t last = -1;
          for (std::size_t i = 0; i < issues[static_cast<std::size_t>(s)].size(); ++i) {
            const ScheduleEvent& e = issues[static_cast<std::size_t>(s)][i];
            const auto forwards = static_cast<std::int64_t>(computed.size());
            const std::int64_t ahead = warmup(ScheduleKind::interleaved, shape, StageId(s));
            const bool in_turn = forwards > ahead && computed.back().phase == Phase::forward;
            if (e.kind == Kind::compute) computed.push_back(e.action), last = static_cast<std::int32_t>(i);
            if (e.kind == Kind::compute || e.kind == Kind::release) continue;
            CHECK_FALSE(in_turn);
            if (e.kind == Kind::receive) CHECK(e.credit == last);
            (e.kind == Kind::send ? mail.sent : mail.received).insert(message(e, e.action.chunk * p + s));
          }
          CHECK(computed == make_schedule(ScheduleKind::interleaved, shape, StageId(s)));
        }
        CHECK(mail.sent == mail.received);
        CHECK(static_cast<std::int64_t>(mail.sent.size()) == 2 * m * (p * v - 1));
      }
  ScheduleShape ahead{2, 5, 2};  // a group of three on two stages
  ahead.exchanges = true;
  CHECK_FALSE(has_exchanges(ScheduleKind::interleaved, ahead));
}

TEST_CASE("what a stage issues has its actions in order and every transfer once at both ends") {
  for_every_shape([](ScheduleKind kind, const ScheduleShape& shape) {
    INFO(name(kind) << " p " << shape.stages << " m " << shape.micro_batches << " v " << shape.chunks);
    const Issues issues = issues_of(kind, shape);
    const Orders orders = orders_of(kind, shape);
    Mail mail;
    for (std::size_t s = 0; s < issues.size(); ++s)
      CHECK(read(issues[s], even_machine(shape, {}), static_cast<std::int64_t>(s), mail) == orders[s]);
    CHECK(mail.sent == mail.received);
    CHECK(std::set<Message>(mail.sent.begin(), mail.sent.end()).size() == mail.sent.size());
    // An interleaved schedule sends v times as often: every micro-batch crosses vp - 1 edges, each way.
    const std::int64_t edges = shape.stages == 1 ? 0 : shape.chunks * shape.stages - (shape.folded ? 2 : 1);  // a V turns on a stage
    CHECK(static_cast<std::int64_t>(mail.sent.size()) == 2 * shape.micro_batches * edges);
  });
}

namespace {

/// Checks the buffers that a stage's receives of one direction fill, `most` of them; of one chunk, or of all (-1).
void check_buffers(const std::vector<ScheduleEvent>& events, Phase direction, std::int64_t most, std::int32_t chunk = -1) {
  std::int64_t waiting = 0, never_held = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const ScheduleEvent& e = events[i];
    if (e.action.phase != direction || (chunk >= 0 && e.action.chunk != chunk)) continue;
    const Action pass{direction, e.action.micro_batch, e.action.chunk};
    const auto received = [&](const ScheduleEvent& r) { return r.kind == Kind::receive && r.action == pass; };
    if (e.kind == Kind::compute && std::find_if(events.begin(), events.end(), received) != events.end()) --waiting;
    if (e.kind != Kind::receive) continue;
    CHECK(++waiting <= most);
    if (e.credit < 0) {
      CHECK(++never_held <= most);
      continue;
    }
    REQUIRE(e.credit < static_cast<std::int32_t>(i));
    const ScheduleEvent& holder = events[static_cast<std::size_t>(e.credit)];
    CHECK((holder.kind == Kind::compute && holder.action.phase == direction));
  }
  CHECK(waiting == 0);
}

}  // namespace

TEST_CASE("a stage has two receive buffers a direction, and more only for what waits between last and first stage") {
  for_every_shape([](ScheduleKind kind, const ScheduleShape& shape) {
    INFO(name(kind) << " p " << shape.stages << " m " << shape.micro_batches << " v " << shape.chunks);
    const Issues issues = issues_of(kind, shape);
    const std::int64_t group = kind == ScheduleKind::breadth_first ? shape.micro_batches : interleaved_group(shape);
    const std::int64_t more = shape.chunks == 1 ? 0 : std::max<std::int64_t>(0, group - shape.stages);
    for (std::size_t s = 0; s < issues.size(); ++s) {
      for (const std::int32_t chunk : {0, 1})  // in a V both come from other stages
        for (const Phase direction : {Phase::forward, Phase::backward})
          if (folds(kind)) check_buffers(issues[s], direction, 2, chunk);
      if (folds(kind)) continue;
      check_buffers(issues[s], Phase::forward, 2 + (s == 0 ? more : 0));
      check_buffers(issues[s], Phase::backward, 2 + (s + 1 == issues.size() ? more : 0));
    }
  });
}

TEST_CASE("a sent buffer is handed on two actions later and at the end") {
  for (int s = 0; s < 4; ++s) {
    std::size_t computed = 0;
    std::vector<std::size_t> sent, released;
    for (const ScheduleEvent& e : make_events(ScheduleKind::zb_h1, {4, 6}, StageId(s))) {
      if (e.kind == Kind::compute) ++computed;
      if (e.kind == Kind::send) sent.push_back(computed);
      if (e.kind == Kind::release) released.push_back(computed);
    }
    REQUIRE(sent.size() == released.size());
    for (std::size_t i = 0; i < sent.size(); ++i) CHECK(released[i] == std::min<std::size_t>(sent[i] + 2, computed));
  }
}

TEST_CASE("a chunk's end is next to the following chunk's beginning, across the ends of the pipeline") {
  const ScheduleShape shape{3, 4, 2};
  const auto f = [](std::int32_t chunk) { return Action{Phase::forward, 1, chunk}; };
  const auto b = [](std::int32_t chunk) { return Action{Phase::backward, 1, chunk}; };
  CHECK(output_to(shape, StageId(2), f(0)) == Neighbour{1, f(1)});
  CHECK(input_from(shape, StageId(0), f(1)) == Neighbour{-1, f(0)});
  CHECK(output_to(shape, StageId(0), b(1)) == Neighbour{-1, b(0)});
  CHECK(input_from(shape, StageId(2), b(0)) == Neighbour{1, b(1)});
  CHECK(output_to(shape, StageId(1), f(1)) == Neighbour{1, f(1)});
  CHECK_FALSE(input_from(shape, StageId(0), f(0)));
  CHECK_FALSE(output_to(shape, StageId(2), f(1)));
  CHECK_FALSE(input_from(shape, StageId(2), b(1)));
  CHECK_FALSE(output_to(shape, StageId(0), b(0)));
  CHECK_FALSE(input_from(shape, StageId(1), {Phase::weight, 1, 0}));
  CHECK_FALSE(output_to({1, 4, 2}, StageId(0), f(0)));
}
