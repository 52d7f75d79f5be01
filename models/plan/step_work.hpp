#pragma once
// The work in a step by which its speed is measured.

#include <cstdint>

#include "models/plan/plan.hpp"

namespace tandem {

struct StepWork {
  std::int64_t tokens = 0, samples = 0;  ///< in the global batch
  DType compute = DType::bf16;           ///< type of products; utilisation is relative to the device's peak in it
  bool steps_overlap = false;            ///< stages start the next step before all have ended this one
};
inline StepWork step_work(const Plan& plan) {
  return {plan.global_batch_tokens(), plan.training.global_batch_size, plan.training.dtypes.compute,
          plan.parallel.optimizer_sync == OptimizerSync::post_validated};
}

}  // namespace tandem
