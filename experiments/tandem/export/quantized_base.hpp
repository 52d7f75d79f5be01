#pragma once
// How a config.json says that the weights beside adapters are stored, as fields of training.lora.

#include <string>

#include "models/base/json.hpp"

namespace tandem::program {

/// The fields base and double_quantization for a `config` whose quantization_config is bitsandbytes' nf4; none for plain weights and for
/// fp8 and mxfp4, which transformers turns into plain ones to train. Throws InfeasibleError for all other formats.
nlohmann::ordered_json quantized_base(const nlohmann::json& config, const std::string& file);

}  // namespace tandem::program
