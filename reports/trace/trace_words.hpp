#pragma once
// Names of the two sides of a comparison with traces. Private to reports/trace.

#include "reports/trace/trace_comparison.hpp"

namespace tandem {

struct TraceWords {
  const char *first, *second, *difference;
};

inline TraceWords words(const TraceComparison& c) {
  return c.of_two_runs ? TraceWords{"new", "baseline", "change"} : TraceWords{"simulated", "measured", "error"};
}

/// The step time of the first side: simulated, or the median of the newer run's steps.
inline double first_step_s(const TraceComparison& c) { return c.of_two_runs ? c.newly_traced.median_s : c.simulated.step_s; }

}  // namespace tandem
