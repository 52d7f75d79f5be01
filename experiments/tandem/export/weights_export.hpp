#pragma once
// Writes a checkpoint's weights in Hugging Face's format.

#include <cstdint>
#include <string>

#include "exec/state/saved_state.hpp"
#include "experiments/tandem/base/exit_code.hpp"

namespace tandem::program {

struct WeightsExport {
  std::string checkpoint, out;   ///< what is read; folder that is written
  std::string type, config;      ///< transformers' model type, a config.json; empty: made from the plan
  std::string dtype;             ///< fp64, fp32, bf16 or fp16; empty: that of the weights
  std::uint64_t most_bytes = 5'000'000'000;  ///< of tensors in one file
  bool json = false;
};

/// The type that an export writes, and its spelling.
struct ExportType {
  DType type;
  std::string word;
};

/// The command's type, else that of the checkpoint's weights.
ExportType export_type(const WeightsExport& o, const exec::SavedState& state);

/// Throws ConfigError for a checkpoint that cannot be read, InfeasibleError for a model that the type cannot say.
ExitCode export_checkpoint(const WeightsExport& o);

}  // namespace tandem::program
