#pragma once
// The transformers model that a plan trains.

#include <memory>
#include <string>
#include <vector>

#include "models/huggingface/weight_table.hpp"
#include "models/plan/plan.hpp"

namespace tandem::program {

struct HubModel {
  huggingface::WeightTable table;
  std::shared_ptr<const nlohmann::json> config;  ///< config.json
  std::vector<std::string> told;  ///< in what the runtime differs from the configuration; the weights are useful all the same
};

/// The names of weights of a configuration's model type. Throws ConfigError if it has no table of them.
huggingface::WeightTable weight_table_of(const nlohmann::json& config, const std::string& file);

/// The model of a config.json (or of the folder that has it). Throws ConfigError if its type has no table of weights, or if the plan
/// says another model; InfeasibleError if no plan says it. A plan without modules of multi-token prediction may leave them out.
HubModel hub_model_of_config(const Plan& plan, const std::string& path);

/// A model type that says the plan's model: `type`, else the first one. Throws InfeasibleError, with what the type cannot say,
/// and ConfigError for a type without a table.
HubModel hub_model_of_plan(const Plan& plan, const std::string& type = {});

/// Of the two above: that of `config` if there is one. Throws ConfigError if it is of another type than `type`.
HubModel chosen_hub_model(const Plan& plan, const std::string& type, const std::string& config);

}  // namespace tandem::program
