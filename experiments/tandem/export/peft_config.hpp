#pragma once
// PEFT's adapter_config.json.

#include <memory>
#include <string>
#include <vector>

#include "models/base/json.hpp"
#include "models/huggingface/adapter_targets.hpp"

namespace tandem::program {

/// What a plan says of it. Fields: PEFT's LoraConfig (huggingface/peft 0.21: src/peft/tuners/lora/config.py).
struct PeftConfig {
  std::string file;
  std::shared_ptr<const nlohmann::json> said;
  double rank = 8, lora_alpha = 8, dropout = 0;
  double factor = 1;          ///< of what an adapter adds: lora_alpha / rank, or with use_rslora lora_alpha / sqrt(rank)

  /// The field's value as the file has it.
  std::string said_text(const std::string& field) const;
  /// training.lora.alpha that gives the same factor.
  double plan_alpha() const;
};

/// Reads adapter_config.json of a folder. Throws ConfigError for fields of other types, and for methods that train more than an A and a B
/// of one rank beside each matrix.
PeftConfig read_peft_config(const std::string& folder);

/// The targets whose modules target_modules and exclude_modules choose. `others`: the model's other modules. Throws ConfigError where
/// these are chosen, or modules in some layers alone.
std::vector<std::string> targets_said(const PeftConfig& config, const std::vector<huggingface::TargetModules>& targets,
                                      const std::vector<std::string>& others);

}  // namespace tandem::program
