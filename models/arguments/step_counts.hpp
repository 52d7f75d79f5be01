#pragma once
// How many optimizer steps a number of sequences or tokens takes, as functions of frameworks' tables.

#include <vector>

#include "models/base/json.hpp"

namespace tandem::arguments {

/// steps_of_samples(samples, batch, rampup): whole batches, as Megatron-LM's update_train_iters counts them.
/// steps_of_tokens(tokens, sequence, batch, rampup): until all tokens are consumed, as the loop of Megatron-DeepSpeed goes on.
/// At least 1. `rampup` is [start, increment, samples], or null. Null for a batch or ramp-up that no plan may have: its checks refuse it.
/// Throws ConfigError unless the first argument is a whole number from 1.
nlohmann::json steps_of_samples(const std::vector<nlohmann::json>& arguments);
nlohmann::json steps_of_tokens(const std::vector<nlohmann::json>& arguments);

}  // namespace tandem::arguments
