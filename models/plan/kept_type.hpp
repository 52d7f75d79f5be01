#pragma once
// Type in which a rank stores weights and optimizer states between steps.

#include <string_view>

#include "models/plan/plan.hpp"

namespace tandem {

/// Type of "weights", "master" or another optimizer buffer. With unit copies (ZeRO 3) weights have the master's type.
DType kept_type(const Plan& plan, std::string_view buffer);

}  // namespace tandem
