#pragma once
// Rates of a predicted step by their keys in JSON.

#include <utility>
#include <vector>

#include "reports/prediction/prediction.hpp"

namespace tandem {

/// In order: throughput, FLOP rates, utilisation, bubble.
std::vector<std::pair<const char*, double>> step_rates(const Prediction& prediction);

}  // namespace tandem
