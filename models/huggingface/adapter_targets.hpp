#pragma once
// Which targets of a plan's adapters are modules of a model in the hub.

#include <string>
#include <vector>

#include "models/huggingface/weight_table.hpp"
#include "models/plan/plan.hpp"

namespace tandem::huggingface {

/// A target of training.lora.targets, and its modules in all layers: "q", {"model.layers.0.self_attn.q_proj", ...}.
struct TargetModules {
  std::string target;
  std::vector<std::string> modules;
  /// Whether one of the modules is `name`, or ends with it after a dot, as PEFT's target_modules say it.
  bool named(const std::string& name) const;
};

/// The targets that the type has modules for. A matrix whose parts are modules of their own is not among them, its parts are.
std::vector<TargetModules> target_modules(const WeightTable& table, const ModelSpec& model);

/// Modules with weights that no target can have, such as "lm_head", routers and norms. May have some that the model lacks.
std::vector<std::string> other_modules(const WeightTable& table, const ModelSpec& model, const std::vector<TargetModules>& targets);

}  // namespace tandem::huggingface
