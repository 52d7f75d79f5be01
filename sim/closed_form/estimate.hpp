#pragma once
// What the closed form says of a plan.

#include <cstdint>

#include "models/base/units.hpp"

namespace tandem::sim {

/// Why an estimate may differ from the event simulation's time. The first that applies.
enum class Outside : std::uint8_t {
  nothing,    ///< no reason: 99 in 100 plans are within 3 %, all within 8 % (tests/sim/closed_form)
  layout,     ///< recurrences have no such plan (ZeRO 2 and 3, two passes at once, ...), or its machine is disturbed
  host,       ///< launches set the pace
  contended,  ///< communications that run at once use links in common
  offloaded,  ///< the first states come from the host beside the last passes or behind them: that sets the pace
};
const char* name(Outside o);

/// How an estimate was made.
enum class Way : std::uint8_t {
  recurrences,  ///< over passes: microseconds
  short_steps,  ///< event simulations of short plans, which plans share (short_steps.hpp): milliseconds for the first
  events,       ///< an event simulation of the plan itself, which is short or grows unevenly
};

struct Estimate {
  Duration step_time;   ///< zero where `outside` is `layout`
  Bytes memory;         ///< of the rank that needs most, the device's runtime included
  Outside outside = Outside::nothing;
  Way way = Way::recurrences;
  bool least = false;   ///< `step_time` is a lower bound, up to an estimate's error: `outside` is set and the plan has no chunks
};

}  // namespace tandem::sim
