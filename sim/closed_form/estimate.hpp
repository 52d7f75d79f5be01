#pragma once
// What the closed form says of a plan.

#include <cstdint>

#include "models/base/units.hpp"

namespace tandem::sim {

/// Why an estimate is not the event simulation's time. The first that applies.
enum class Outside : std::uint8_t {
  nothing,    ///< it is, within a percent
  layout,     ///< the closed form has no such plan: experts, decoders, context parallelism, ZeRO 2 and 3, offloading, ...
  host,       ///< launches set the pace
  contended,  ///< communications that run at once use links in common
};
const char* name(Outside o);

struct Estimate {
  Duration step_time;   ///< zero where `outside` is `layout`
  Bytes memory;         ///< of the rank that needs most, the device's runtime included
  Outside outside = Outside::nothing;
  bool quick = true;    ///< by recurrences over passes, in microseconds; else from short steps (short_steps.hpp)
};

}  // namespace tandem::sim
