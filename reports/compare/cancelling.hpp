#pragma once
// Errors of single operations that cancel in the step.

#include <optional>
#include <string>

#include "reports/compare/compare.hpp"

namespace tandem {

/// Finds kinds of operation (or waiting) whose errors cancel: the errors of each sign add up to a tenth of the step or more, and to
/// more than the step's own error.
std::optional<Cancelling> cancelling(const Comparison& comparison);

/// "errors of single operations cancel: matmul +70.0 % ..., all_reduce -95.0 % ..., the step -3.1 %".
std::string to_text(const Cancelling& cancelling, const Comparison& comparison);

}  // namespace tandem
