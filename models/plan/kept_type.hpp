#pragma once
// Type in which a rank stores weights and optimizer states between steps.

#include <string_view>

#include "models/plan/plan.hpp"

namespace tandem {

/// Type of a buffer: "weights", "master", or any other name for a moment of the optimizer. Under ZeRO 3 with
/// parallel.unit_copies a rank stores only masters and copies units from them, so "weights" has the master's type.
DType kept_type(const Plan& plan, std::string_view buffer);

}  // namespace tandem
