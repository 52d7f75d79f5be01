#pragma once
// What a step of a plan is measured by.

#include <cstdint>

#include "models/plan/plan.hpp"

namespace tandem {

struct StepWork {
  std::int64_t tokens = 0, samples = 0;  ///< of the global batch
  DType compute = DType::bf16;           ///< of products: utilisation is of the device's peak in this type
  bool steps_overlap = false;            ///< stages begin the next step before all have ended this one
};
inline StepWork step_work(const Plan& plan) {
  return {plan.global_batch_tokens(), plan.training.global_batch_size, plan.training.dtypes.compute,
          plan.parallel.optimizer_sync == OptimizerSync::post_validated};
}

}  // namespace tandem
