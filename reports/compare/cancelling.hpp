#pragma once
// Errors of single operations that hide each other in the step.

#include <optional>
#include <string>

#include "reports/compare/compare.hpp"

namespace tandem {

/// Kinds of operation and waiting whose errors are of both signs, where each sign comes to a tenth of the step and to more than the
/// step's own error.
std::optional<Cancelling> cancelling(const Comparison& comparison);

/// "errors of single operations cancel: matmul +70.0 % ..., all_reduce -95.0 % ..., the step -3.1 %".
std::string to_text(const Cancelling& cancelling, const Comparison& comparison);

}  // namespace tandem
