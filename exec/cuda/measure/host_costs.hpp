#pragma once
// What launching costs, on the host and between kernels.

#include <vector>

#include "exec/cuda/measure/bench.hpp"
#include "reports/prediction/cost_table.hpp"

namespace tandem::exec::cuda {

/// Host time of a launch, time from kernel to dependent kernel, and waiting for a stream or an event.
std::vector<Figure> time_launches(Bench& bench);

}  // namespace tandem::exec::cuda
