#pragma once
// Writes a checkpoint's weights in Hugging Face's format.

#include <cstdint>
#include <string>
#include <vector>

#include "exec/state/saved_state.hpp"
#include "exec/weights/weight_files.hpp"
#include "models/huggingface/tensor_rows.hpp"

namespace tandem::exec {

struct ExportOptions {
  std::string folder;              ///< does not exist, or is empty
  std::string config;              ///< text of config.json
  DType type = DType::fp32;        ///< of all tensors: fp64, fp32, bf16 or fp16
  std::uint64_t most_bytes = 0;    ///< of tensors in a file; a larger tensor has a file of its own
  std::string weights_name = "model", config_name = "config.json";  ///< of files; "model" is completed by ".safetensors"
  const WeightFiles* others = nullptr;  ///< files whose tensors `copied` are written as they are, behind all others
  std::vector<std::string> copied = {};
};

struct ExportedFiles {
  std::vector<std::string> names;  ///< files of weights
  std::uint64_t bytes = 0;         ///< of all tensors
  std::int64_t elements = 0;
};

/// The parameters of a checkpoint. Vocabulary padding, which earlier versions saved, is left out.
std::vector<huggingface::WholeParameter> whole_parameters(const SavedState& state, std::int64_t vocab_size);

/// The adapters of a checkpoint.
std::vector<huggingface::WholeParameter> whole_adapters(const SavedState& state);

/// Writes config.json and model.safetensors, or several files with an index, beside the folder's name, and renames all at the end.
/// Weights come from the optimizer's masters where the checkpoint has them and `type` is not that of the weights. Holds one
/// parameter at a time. Throws ConfigError if the folder cannot be written, the checkpoint is damaged, or a finite number is beyond
/// the type.
ExportedFiles export_weights(const SavedState& state, const std::vector<huggingface::ParameterRows>& parameters,
                             const ExportOptions& options);

}  // namespace tandem::exec
