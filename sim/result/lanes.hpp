#pragma once
// A simulated step as the timeline that both performers write.

#include "reports/timeline/timeline.hpp"
#include "sim/engine/simulated_step.hpp"
#include "sim/network/setup.hpp"

namespace tandem::sim {

/// The lane of one role: a span for each of its tasks, in issue order.
Lane make_lane(const SimulatedStep& simulated, const Setup& setup, std::size_t role);

}  // namespace tandem::sim
