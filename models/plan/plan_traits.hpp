#pragma once
// Traits by which plans are compared with measured runs.

#include <cstdint>
#include <string>
#include <vector>

#include "models/plan/plan.hpp"

namespace tandem {

struct PlanTraits {
  std::vector<std::string> words;  ///< "stack megatron-core", "precision bf16", "layout tensor, ZeRO 1" and, of plans with
                                   ///< such parts, "experts", "recurrences", "LoRA", "schedule zb-h1" ...
  std::int64_t devices = 0;
  Month as_of{};                   ///< of the stack's code
  std::int64_t positions = 0;      ///< of the longest sequence
};
PlanTraits traits_of(const Plan& plan);

}  // namespace tandem
