#pragma once
// Names of the two sides of a comparison. Private to reports/compare.

#include <string>

#include "reports/compare/compare.hpp"

namespace tandem {

/// The two timelines and their difference.
struct CompareWords {
  std::string first, second, difference;
};

inline CompareWords words(const Comparison& c) {
  return of_one_performer(c) ? CompareWords{"new", "baseline", "change"} : CompareWords{"simulated", "executed", "error"};
}

}  // namespace tandem
