#pragma once
// The closed form's estimate of a plan.

#include <cstdint>

#include "models/base/units.hpp"

namespace tandem::sim {

/// Why an estimate may differ from the event simulation's time: the first reason that applies.
enum class Outside : std::uint8_t {
  nothing,    ///< no reason: 99 in 100 plans are within 3 %, all within 8 % (tests/sim/closed_form)
  layout,     ///< recurrences do not cover the plan (ZeRO 2 and 3, modules, ...), or it has a perturbation
  host,       ///< the host's launches may limit the step
  contended,  ///< communications that run at once share links
  offloaded,  ///< the first states may arrive from the host behind the last passes and delay the step
  paired,     ///< two passes run at once: recurrences know only the least time that a pair takes
};
const char* name(Outside o);

/// How an estimate was made.
enum class Way : std::uint8_t {
  recurrences,  ///< recurrences over passes: microseconds
  short_steps,  ///< event simulations of short plans, which plans share (short_steps.hpp): milliseconds for the first
  events,       ///< an event simulation of the plan itself, which is short or grows unevenly
};

struct Estimate {
  Duration step_time;   ///< zero if `outside` is `layout`
  Bytes memory;         ///< memory of the rank that needs most, with the device's runtime
  Outside outside = Outside::nothing;
  Way way = Way::recurrences;
  bool least = false;   ///< if `outside` is set, `step_time` is a lower bound up to an estimate's error: the plan has no chunks
};

}  // namespace tandem::sim
