#pragma once
// Costs of launches, on the host and between kernels.

#include <vector>

#include "exec/cuda/measure/bench.hpp"
#include "reports/prediction/cost_table.hpp"

namespace tandem::exec::cuda {

/// Measures the host time of a launch, the time between dependent kernels, and waits for streams and events.
std::vector<Figure> time_launches(Bench& bench);

}  // namespace tandem::exec::cuda
