#pragma once
// How long a device computes, communicates and waits: unions of intervals.

#include <utility>
#include <vector>

#include "models/base/units.hpp"

namespace tandem {

using Interval = std::pair<Duration, Duration>;  ///< begin, end

/// Times within a window. computing + exposed + idle is the window.
struct BusyTime {
  Duration window;
  Duration computing;      ///< at least one interval of computation runs
  Duration communicating;  ///< at least one of communication runs
  Duration exposed;        ///< communication runs and no computation: it is not hidden
  Duration idle;           ///< nothing runs
};

/// Parts of intervals outside of the window do not count.
BusyTime busy_time(std::vector<Interval> computation, std::vector<Interval> communication, const Interval& window);

}  // namespace tandem
