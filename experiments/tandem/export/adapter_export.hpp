#pragma once
// Writes a checkpoint's low-rank adapters in PEFT's format.

#include "experiments/tandem/export/weights_export.hpp"

namespace tandem::program {

/// Writes adapter_config.json and adapter_model.safetensors. Throws ConfigError for a checkpoint without adapters, InfeasibleError for
/// a model that the type cannot say.
ExitCode export_adapters(const WeightsExport& o);

}  // namespace tandem::program
