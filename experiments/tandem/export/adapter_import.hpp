#pragma once
// Adapters that a training begins with, in PEFT's format.

#include <memory>
#include <string>
#include <vector>

#include "exec/state/saved_state.hpp"
#include "models/base/json.hpp"
#include "models/huggingface/tensor_rows.hpp"

namespace tandem::program {

/// A folder of adapters, and the plan's adapters that it is read for.
struct AdapterFolder {
  std::string path;
  const Plan& plan;
  const huggingface::WeightTable& table;
  std::vector<huggingface::WholeParameter> adapters;
};

/// Opens adapter_config.json and adapter_model.safetensors. Throws ConfigError if the plan has no adapters, or if these are of another
/// rank, factor, method or other targets than its training.lora, lack a tensor, have others, or have other matrices A for parts of a matrix
/// that is a target itself.
std::unique_ptr<exec::SavedState> open_adapters(const AdapterFolder& folder);

/// training.lora of the adapter_config.json in `folder`, for a plan of the model in config.json `model`.
nlohmann::ordered_json adapter_section(const std::string& folder, const Plan& plan, const std::string& model);

}  // namespace tandem::program
