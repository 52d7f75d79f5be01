// The threads of a rank, and the products that they share.

#include "exec/cpu/team/team.hpp"

#include <array>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "exec/cpu/gemm/cut.hpp"
#include "exec/cpu/scratch.hpp"
#include "exec/cpu/team_product.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"

namespace tandem::exec::cpu {
namespace {

/// How often a loop has come to each index, and the threads that took part.
struct Visits {
  std::vector<int> of;
  std::set<std::thread::id> threads;
};

Visits visits(Team& team, std::int64_t n, std::int64_t grain) {
  Visits v{std::vector<int>(static_cast<std::size_t>(n), 0), {}};
  std::mutex mutex;
  std::atomic<int> waiting{0};
  team.split(n, grain, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; ++i) ++v.of[static_cast<std::size_t>(i)];
    if (++waiting < team.threads())
      for (int i = 0; i < 1000 && waiting < team.threads(); ++i) std::this_thread::yield();  // the others get a turn
    const std::lock_guard guard(mutex);
    v.threads.insert(std::this_thread::get_id());
  });
  return v;
}

struct Shape {
  std::int64_t m, n, k;
};

/// A shape of every cut, of odd sizes, and some that are not cut.
std::vector<Shape> shapes() {
  return {{256, 2304, 768}, {256, 768, 3072}, {512, 3072, 768}, {512, 768, 3072}, {768, 768, 256}, {3072, 768, 256},
          {768, 3072, 512},
          {700, 1000, 333}, {4099, 67, 131},  {67, 4099, 131},  {1, 5000, 1000},  {5000, 1, 1000}, {1025, 1023, 129}, {7, 5, 3}};
}

template <class T>
std::vector<T> multiplied(const Shape& s, bool turned, bool add, std::int64_t threads) {
  Team team(threads, 1);
  ScratchArray<T> a(s.m * s.k), b(s.k * s.n), c(s.m * s.n);
  for (std::int64_t i = 0; i < s.m * s.k; ++i) a.data()[i] = static_cast<T>((i * 7919) % 1009) / T{1009} - T{0.5};
  for (std::int64_t i = 0; i < s.k * s.n; ++i) b.data()[i] = static_cast<T>((i * 104729) % 997) / T{997} - T{0.5};
  std::fill_n(c.data(), s.m * s.n, T{0.25});
  const Factor<T> left{a.data(), turned ? s.m : s.k, turned}, right{b.data(), turned ? s.n : s.k, !turned};
  multiply(team, Product<T>{s.m, s.n, s.k, left, right, c.data(), s.n, T{0.5}, add});
  return {c.data(), c.data() + s.m * s.n};
}

}  // namespace

TEST_CASE("a loop that threads share comes to every index once, and a small one stays on its thread", "[tsan]") {
  for (const std::int64_t threads : {1, 2, 3, 4}) {
    Team team(threads);
    for (const std::int64_t n : {0, 1, 2, 63, 64, 65, 1000, 4097})
      for (const std::int64_t grain : {1, 7, 64}) {
        const Visits v = visits(team, n, grain);
        CHECK(v.of == std::vector<int>(static_cast<std::size_t>(n), 1));
        CHECK(v.threads.size() <= static_cast<std::size_t>(threads));
        if (n > 0 && n <= grain) CHECK(v.threads == std::set{std::this_thread::get_id()});
      }
  }
}

TEST_CASE("ranges begin at multiples of the grain", "[tsan]") {
  Team team(3);
  std::atomic<int> off{0};
  team.split(1000, 64, [&](std::int64_t first, std::int64_t end) { off += first % 64 != 0 || (end % 64 != 0 && end != 1000); });
  CHECK(off == 0);
}

TEST_CASE("a loop inside a loop, or of another thread beside it, is done whole by the thread that calls", "[tsan]") {
  Team team(4);
  std::atomic<std::int64_t> sum{0};
  const auto nested = [&] {
    team.split(40, 1, [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t i = first; i < end; ++i) team.split(25, 1, [&](std::int64_t f, std::int64_t e) { sum += e - f; });
    });
  };
  std::thread other([&] {
    for (int i = 0; i < 50; ++i) nested();
  });
  for (int i = 0; i < 50; ++i) nested();
  other.join();
  CHECK(sum == 100 * 40 * 25);
}

TEST_CASE("of several ranges that fail the first one's error is thrown, and the team goes on", "[tsan]") {
  Team team(3);
  for (int round = 0; round < 100; ++round) {
    try {
      team.split(900, 1, [](std::int64_t first, std::int64_t end) {
        for (std::int64_t i = first; i < end; ++i)
          if (i >= 400) throw DeviceError("index " + std::to_string(i));
      });
      FAIL("nothing was thrown");
    } catch (const DeviceError& e) {
      CHECK(std::string(e.what()) == "index 400");
    }
    CHECK(visits(team, 100, 1).of == std::vector<int>(100, 1));
  }
}

TEST_CASE("a team that has slept works on, and one that never worked ends", "[tsan]") {
  const Team idle(4);
  Team team(2);
  for (int i = 0; i < 3; ++i) {
    CHECK(visits(team, 500, 1).of == std::vector<int>(500, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST_CASE("a product's pieces begin on cache lines and depend on its shape alone") {
  std::set<CutAlong> seen;
  for (const Shape& s : shapes()) {
    const Cut cut = cut_of(s.m, s.n, s.k);
    INFO(s.m << " x " << s.n << " x " << s.k);
    CHECK(cut.extent % 64 == 0);
    if (cut.extent == 0) continue;
    seen.insert(cut.along);
    const std::int64_t length = cut.along == CutAlong::rows ? s.m : cut.along == CutAlong::columns ? s.n : s.k;
    CHECK(cut.extent < length);
  }
  CHECK(seen == std::set{CutAlong::rows, CutAlong::columns, CutAlong::sum});
}

TEMPLATE_TEST_CASE("a product that threads share has the same bits whatever their number", "", float, double) {
  for (const Shape& s : shapes())
    for (const bool turned : {false, true})
      for (const bool add : {false, true}) {
        INFO(s.m << " x " << s.n << " x " << s.k << (turned ? ", turned" : "") << (add ? ", added" : ""));
        const std::vector<TestType> one = multiplied<TestType>(s, turned, add, 1);
        for (const std::int64_t threads : {2, 3, 4}) CHECK(multiplied<TestType>(s, turned, add, threads) == one);
      }
}

TEST_CASE("a product in pieces is that of a sum term by term, to rounding") {
  for (const Shape& s : {Shape{512, 768, 3072}, Shape{700, 1000, 333}, Shape{4099, 67, 131}}) {
    const std::vector<double> exact = multiplied<double>(s, false, true, 3);
    const std::vector<float> rounded = multiplied<float>(s, false, true, 3);
    for (std::int64_t at = 0; at < s.m * s.n; at += 7777) {
      double sum = 0;
      for (std::int64_t i = 0; i < s.k; ++i) {
        const std::int64_t a = at / s.n * s.k + i, b = at % s.n * s.k + i;
        sum += (static_cast<double>((a * 7919) % 1009) / 1009 - 0.5) * (static_cast<double>((b * 104729) % 997) / 997 - 0.5);
      }
      CHECK(exact[static_cast<std::size_t>(at)] == Approx(0.25 + 0.5 * sum).margin(1e-11));
      CHECK(rounded[static_cast<std::size_t>(at)] == Approx(0.25 + 0.5 * sum).margin(1e-3));  // k roundings of 6e-8 of terms below 1/4
    }
  }
}

}  // namespace tandem::exec::cpu
