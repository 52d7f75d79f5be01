#pragma once
// A play as the timeline that both performers leave behind.

#include "reports/timeline.hpp"
#include "sim/play.hpp"
#include "sim/scene.hpp"

namespace tandem::sim {

/// The lane of one role: a span for each of its tasks, in issue order.
Lane make_lane(const Play& play, const Scene& scene, std::size_t role);

}  // namespace tandem::sim
