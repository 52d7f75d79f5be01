#include "sim/event_queue.hpp"

#include <random>

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

TEST_CASE("an event cannot be scheduled in the past") {
  EventQueue queue;
  queue.schedule(ps(10), 0, 0);
  queue.pop();
  CHECK_NOTHROW(queue.schedule(ps(10), 1, 0));
  CHECK_THROWS_AS(queue.schedule(ps(9), 2, 0), ContractError);
}
