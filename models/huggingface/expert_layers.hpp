#pragma once
// Which layers hold experts, as configurations say it and as a plan can.

#include "models/huggingface/facts.hpp"

namespace tandem::huggingface {

/// From the facts layers, experts, moe_list, moe_first, moe_last, moe_step, moe_offset and moe_except: an object with
/// `experts` and `dense` (numbers of layers), `first_dense` and `frequency` (a plan's model.moe fields that come nearest) and
/// `irregular` (whether a plan with these has its experts in other layers). Throws ConfigError.
nlohmann::json expert_layer_facts(Facts& facts);

}  // namespace tandem::huggingface
