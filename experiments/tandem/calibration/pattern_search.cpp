#include "experiments/tandem/calibration/pattern_search.hpp"

#include <algorithm>

namespace tandem::program {

namespace {

struct Found {
  Point point;
  double cost;
};

using Cost = std::function<double(const Point&)>;

void try_point(Found& best, Point candidate, int size, const Cost& cost) {
  for (int& c : candidate) c = std::clamp(c, 0, size);
  const double price = candidate == best.point ? best.cost : cost(candidate);
  if (price < best.cost) best = {std::move(candidate), price};
}

Found explore(Found from, int step, int size, const Cost& cost) {
  for (std::size_t i = 0; i < from.point.size(); ++i) {
    Point up = from.point, down = from.point;
    up[i] += step, down[i] -= step;
    try_point(from, std::move(up), size, cost);
    try_point(from, std::move(down), size, cost);
  }
  return from;
}

/// Tries steps in two coordinates at once, in equal and opposite directions, to follow a valley that is oblique to the axes.
Found explore_pairs(Found from, int step, int size, const Cost& cost) {
  for (std::size_t i = 0; i < from.point.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      for (const auto& [a, b] : {std::pair{step, step}, {step, -step}, {-step, step}, {-step, -step}}) {
        Point moved = from.point;
        moved[i] += a, moved[j] += b;
        try_point(from, std::move(moved), size, cost);
      }
  return from;
}

Point beyond(const Point& from, const Point& to) {
  Point out = to;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += to[i] - from[i];
  return out;
}

}  // namespace

Point pattern_search(Point start, const Pattern& pattern, const Cost& cost) {
  const double first = cost(start);
  Found best{std::move(start), first};
  for (int step = pattern.first_step; step > 0; step /= 2)
    for (bool better = true; better;) {
      Found next = explore(best, step, pattern.size, cost);
      if (next.cost >= best.cost) next = explore_pairs(best, step, pattern.size, cost);
      better = next.cost < best.cost;
      if (!better) continue;
      const Point ahead = beyond(best.point, next.point);
      best = std::move(next);
      try_point(best, ahead, pattern.size, cost);
    }
  return best.point;
}

}  // namespace tandem::program
