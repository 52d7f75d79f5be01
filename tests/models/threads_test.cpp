#include "models/base/threads.hpp"

#include <atomic>
#include <latch>
#include <stdexcept>
#include <string>

#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;

TEST_CASE("every index is worked once on any number of threads, and the first failing one is told", "[tsan]") {
  for (const int most : {1, 3, 50}) {
    std::vector<std::atomic<int>> count(40);
    for_each_index(count.size(), {most}, [&](std::size_t i) { ++count[i]; });
    for (const auto& c : count) CHECK(c == 1);
    const auto fails = [](std::size_t i) {
      if (i % 10 == 7) throw std::runtime_error(std::to_string(i));
    };
    CHECK_THROWS_WITH(for_each_index(40, {most}, fails), "7");
  }
  for_each_index(0, {4}, [](std::size_t) { throw std::runtime_error("nothing to do"); });
}

TEST_CASE("a list of work ends early when it is stopped or fails", "[tsan]") {
  std::atomic<int> done = 0;
  for_each_index(1000, {3, [&] { return done >= 5; }}, [&](std::size_t) { ++done; });
  CHECK((done >= 5 && done <= 7));  // each of three threads may have asked before the fifth was done
  std::atomic<int> begun = 0;
  CHECK_THROWS_WITH(for_each_index(1000, {1}, [&](std::size_t) { throw std::runtime_error("at " + std::to_string(begun++)); }), "at 0");
  CHECK(begun == 1);
}

TEST_CASE("memory that ends inside a thread is an exception for who waits for it, not the end of the program", "[tsan]") {
  CHECK_THROWS_AS(for_each_index(8, {4}, [](std::size_t) { throw std::bad_alloc(); }), std::bad_alloc);
  ThreadGroup group;
  group.start([] { throw std::bad_alloc(); });
  CHECK_THROWS_AS(group.join(), std::bad_alloc);
  group.join();  // told once
}

TEST_CASE("bodies that run at once may wait for each other, and none waits for one that failed", "[tsan]") {
  std::latch all(4);
  std::atomic<int> met = 0;
  run_at_once(4, [&](std::size_t) { all.arrive_and_wait(), ++met; }, [] {});
  CHECK(met == 4);
  std::latch never(1);
  const auto body = [&](std::size_t i) {
    if (i == 2) throw std::runtime_error("the third");
    never.wait();
    throw std::runtime_error("a consequence");
  };
  CHECK_THROWS_WITH(run_at_once(4, body, [&] { never.count_down(); }), "the third");
}
