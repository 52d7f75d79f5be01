#pragma once
// The line with which explain begins.

#include <string>

#include "models/plan/plan.hpp"

namespace tandem::program {

/// "LLaMA-2 13B: tensor 2 x pipeline 4 x data 4, 32 devices of dgx-a100-80gb, bf16, global batch 32 x 4,096 tokens".
std::string headline(const Plan& plan);

}  // namespace tandem::program
