#include "reports/trace/busy_time.hpp"

#include <random>

#include "tests/catch.hpp"

using namespace tandem;

namespace {

Duration us(std::int64_t n) { return Duration::nanoseconds(1000 * n); }

std::vector<Interval> random_intervals(std::mt19937& random, int most) {
  std::uniform_int_distribution<int> count(0, most), begin(0, 120), length(0, 25);
  std::vector<Interval> out;
  for (int i = count(random); i > 0; --i) {
    const int from = begin(random);
    out.emplace_back(us(from), us(from + length(random)));
  }
  return out;
}

bool runs(const std::vector<Interval>& intervals, std::int64_t moment) {
  for (const auto& [from, to] : intervals)
    if (from <= us(moment) && us(moment) < to) return true;
  return false;
}

}  // namespace

TEST_CASE("computing, exposed and idle time are what counting every microsecond gives") {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const std::vector<Interval> computation = random_intervals(random, 8), communication = random_intervals(random, 5);
    std::int64_t computing = 0, communicating = 0, exposed = 0, idle = 0;
    for (std::int64_t t = 20; t < 110; ++t) {
      const bool c = runs(computation, t), m = runs(communication, t);
      computing += c, communicating += m, exposed += m && !c, idle += !c && !m;
    }
    const BusyTime found = busy_time(computation, communication, {us(20), us(110)});
    REQUIRE(found.window == us(90));
    REQUIRE(found.computing == us(computing));
    REQUIRE(found.communicating == us(communicating));
    REQUIRE(found.exposed == us(exposed));
    REQUIRE(found.idle == us(idle));
  }
}
