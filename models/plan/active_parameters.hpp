#pragma once
// Parameters that one token uses, as publishers of mixtures of experts count them; parameters that are trained.

#include <cstdint>

#include "models/plan/plan.hpp"

namespace tandem {

/// All parameters but those of MTP modules and of the routed experts that a token is not sent to. Embedding and output matrix
/// count, as in Mixtral's 12.9 B (mistral.ai/news/mixtral-of-experts). Others leave the embedding out, such as gpt-oss's 5.13 B
/// (arXiv 2508.10925, table 1). In a dense model these are all parameters.
std::int64_t active_parameters(const ModelSpec& model);

/// Whether a token uses fewer parameters than there are.
inline bool has_active_parameters(const ModelSpec& model) { return model.moe.num_experts > 0; }

/// Parameters of the plan's adapters, which alone are trained. 0 where the plan has none: all parameters are trained.
std::int64_t trained_in_adapters(const Plan& plan);

}  // namespace tandem
