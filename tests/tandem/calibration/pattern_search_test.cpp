#include "experiments/tandem/calibration/pattern_search.hpp"

#include <cmath>
#include <set>

#include "tests/catch.hpp"

using namespace tandem::program;

namespace {

double bowl(const Point& p) { return std::abs(p[0] - 41) + 2 * std::abs(p[1] - 3) + std::abs(p[2] - 64); }

}  // namespace

TEST_CASE("the search finds the bottom of a bowl, also where it lies on the border") {
  for (const Point& start : {Point{32, 32, 32}, {0, 0, 0}, {64, 64, 64}})
    CHECK(pattern_search(start, {64, 16}, bowl) == Point{41, 3, 64});
}

TEST_CASE("the search follows a valley that lies across the axes") {
  const auto valley = [](const Point& p) { return std::pow(p[0] - p[1], 2) * 4 + std::pow(p[0] + p[1] - 100, 2) / 10.0; };
  CHECK(valley(pattern_search({2, 2}, {64, 16}, valley)) < 0.5);
}

TEST_CASE("the search never leaves the lattice and asks for far fewer points than it has") {
  std::set<Point> asked;
  pattern_search({10, 10, 10}, {64, 16}, [&](const Point& p) {
    asked.insert(p);
    for (int c : p) CHECK((c >= 0 && c <= 64));
    return bowl(p);
  });
  CHECK(asked.size() < 200);
}
