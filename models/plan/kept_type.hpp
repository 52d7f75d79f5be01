#pragma once
// Type in which a rank stores weights and optimizer states between steps.

#include <string_view>

#include "models/plan/plan.hpp"

namespace tandem {

/// `buffer`: "weights", "master", or any other name for a moment of the optimizer. Under ZeRO 3 with parallel.unit_copies the
/// weights that a rank stores are the master's, from which units are copied: "weights" then has the master's type.
DType kept_type(const Plan& plan, std::string_view buffer);

}  // namespace tandem
