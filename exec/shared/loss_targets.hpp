#pragma once
// The divisor of a step's loss.

#include <cstdint>

#include "exec/backend/step_table.hpp"
#include "exec/shared/hd.hpp"

namespace tandem::exec {

/// Targets in the global batch: those of the step's data where it counted them, else `planned`.
TANDEM_HD inline double loss_targets(const StepTable& table, std::int64_t planned) {
  return static_cast<double>(table.targets > 0 ? table.targets : planned);
}

}  // namespace tandem::exec
