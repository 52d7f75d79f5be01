#pragma once
// The report of `tandem import`: the sources of each field, what is left out, and the difference from the model.

#include <optional>
#include <string>

#include "models/base/json.hpp"
#include "models/huggingface/imported_model.hpp"
#include "models/plan/plan.hpp"

namespace tandem::import {

/// Asks for a whole plan instead of a model preset.
struct PlanRequest {
  std::string cluster;       ///< empty: make a model preset
  std::int64_t devices = 0;  ///< 0: not said
};

/// A model and the plan made from it. FLOPs are those of a token's forward and backward pass.
struct Import {
  huggingface::ImportedModel model;
  bool approximate = false;
  bool refused = false;                 ///< it has features that a plan cannot express, and no approximation was allowed
  std::int64_t plan_parameters = 0;
  std::int64_t stored_parameters = 0;   ///< of the files of weights beside config.json, as their index says; 0: it does not
  std::optional<ModelSpec> mixture;     ///< the plan's model, if it has experts
  std::optional<double> plan_flops;     ///< if there is a closed form for the family
  nlohmann::ordered_json document() const;                        ///< a preset file
  nlohmann::ordered_json document(const PlanRequest& plan) const; ///< a plan file; a preset file if no cluster is named
};

/// Reads a configuration and counts the plan's parameters and FLOPs. Throws ConfigError and InfeasibleError, like import_model and
/// like a plan with that model.
Import make_import(const std::string& path, std::int64_t sequence, bool approximate);

/// `preset`: the document is a model preset, which has no training section.
std::string to_text(const Import& import, bool preset);
std::string to_json(const Import& import, const nlohmann::ordered_json& document);

}  // namespace tandem::import
