#pragma once
// Minimises a cost function without derivatives on a lattice of few dimensions.

#include <functional>
#include <vector>

namespace tandem::program {

/// Lattice coordinates, each from 0 to Pattern::size.
using Point = std::vector<int>;

struct Pattern {
  int size = 64;        ///< largest coordinate in every dimension
  int first_step = 16;  ///< initial step; halved down to 1
};

/// Hooke and Jeeves' pattern search (J. ACM 8, 1961). Tries a step up and down in every coordinate, or, if that does not help, in
/// every pair. Keeps a cheaper point and continues in that direction; else halves the step. Deterministic. May evaluate `cost` at a
/// point repeatedly.
Point pattern_search(Point start, const Pattern& pattern, const std::function<double(const Point&)>& cost);

}  // namespace tandem::program
