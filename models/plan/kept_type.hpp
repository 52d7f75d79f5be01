#pragma once
// In which type a rank keeps what a training keeps from step to step.

#include <string_view>

#include "models/plan/plan.hpp"

namespace tandem {

/// Of "weights", "master" or another of the optimizer's buffers. Of units that are copied on their way weights are kept as the optimizer's.
DType kept_type(const Plan& plan, std::string_view buffer);

}  // namespace tandem
