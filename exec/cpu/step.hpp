#pragma once
// Access to the step table of a kernel's step.

#include <cstdint>

#include "exec/backend/launch.hpp"
#include "models/base/error.hpp"

namespace tandem::exec::cpu {

inline StepTable& step_table(const KernelContext& context) {
  require(context.table != nullptr, "an operation that needs the step table got none");
  return *context.table;
}

/// Global index of the micro-batch's first sequence within the run.
inline std::int64_t first_sequence(const KernelContext& context) {
  return step_table(context).first_sample + context.first_sequence;
}

}  // namespace tandem::exec::cpu
