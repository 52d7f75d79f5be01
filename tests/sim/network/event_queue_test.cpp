#include "sim/network/event_queue.hpp"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {
Duration ps(std::int64_t n) { return Duration::picoseconds(n); }
}  // namespace

TEST_CASE("events come out by time and, at one time, in the order they were scheduled") {
  EventQueue queue;
  std::mt19937 random(7);
  for (std::uint32_t i = 0; i < 2000; ++i) queue.schedule(ps(random() % 50), i, 0);
  Event last = queue.pop();
  while (!queue.empty()) {
    const Event next = queue.pop();
    REQUIRE(next.at >= last.at);
    if (next.at == last.at) REQUIRE(next.target > last.target);
    REQUIRE(queue.now() == next.at);
    last = next;
  }
  CHECK(queue.popped() == 2000);
}

TEST_CASE("events scheduled between others, also for the present, keep their place") {
  EventQueue queue;
  std::mt19937 random(8);
  std::vector<std::pair<std::int64_t, std::uint32_t>> expected;  // those that wait, each by time and number
  std::uint32_t number = 0;
  for (int round = 0; round < 20'000; ++round) {
    if (expected.empty() || random() % 2 == 0) {
      // Few times and many: the second kind push each other out of the places where lines are looked for.
      const std::int64_t at = queue.now().ps() + random() % (round % 2 == 0 ? 4 : 5000);
      queue.schedule(ps(at), number, number + 1);
      expected.emplace_back(at, number++);
    } else {
      const auto first = std::min_element(expected.begin(), expected.end());
      REQUIRE(queue.next() == ps(first->first));
      const Event event = queue.pop();
      REQUIRE(event.at == ps(first->first));
      REQUIRE(event.target == first->second);
      REQUIRE(event.version == first->second + 1);
      expected.erase(first);
    }
    REQUIRE(queue.empty() == expected.empty());
  }
}

TEST_CASE("the event that is coming is one of those that wait, a few places on") {
  EventQueue queue;
  CHECK(queue.coming() == EventQueue::kNone);
  for (std::uint32_t i = 0; i < 20; ++i) queue.schedule(ps(5), i, 0);
  const std::uint32_t ahead = queue.coming();
  REQUIRE(ahead < 20);
  for (std::uint32_t i = 0; i < 20; ++i) {
    CHECK(queue.coming() == (i + ahead < 20 ? i + ahead : EventQueue::kNone));
    CHECK(queue.pop().target == i);
  }
}

TEST_CASE("an event cannot be scheduled in the past") {
  EventQueue queue;
  queue.schedule(ps(10), 0, 0);
  queue.pop();
  CHECK_NOTHROW(queue.schedule(ps(10), 1, 0));
  CHECK_THROWS_AS(queue.schedule(ps(9), 2, 0), ContractError);
}
