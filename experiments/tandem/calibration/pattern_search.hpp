#pragma once
// Minimising a cost that can only be evaluated, over a lattice of few dimensions.

#include <functional>
#include <vector>

namespace tandem::program {

/// Coordinates of a lattice, each from 0 to its `size`.
using Point = std::vector<int>;

struct Pattern {
  int size = 64;        ///< the last coordinate of every dimension
  int first_step = 16;  ///< halved until it has been 1
};

/// Hooke and Jeeves' pattern search (J. ACM 8, 1961): tries a step up and down in every coordinate (in every two at once
/// where that does not help), keeps what is cheaper, goes on in the direction that helped, and halves the step when nothing does. Deterministic. `cost` is asked for the
/// same point more than once.
Point pattern_search(Point start, const Pattern& pattern, const std::function<double(const Point&)>& cost);

}  // namespace tandem::program
