#pragma once
// A play as the timeline that both performers leave behind.

#include "reports/timeline/timeline.hpp"
#include "sim/engine/play.hpp"
#include "sim/network/scene.hpp"

namespace tandem::sim {

/// The lane of one role: a span for each of its tasks, in issue order.
Lane make_lane(const Play& play, const Scene& scene, std::size_t role);

}  // namespace tandem::sim
