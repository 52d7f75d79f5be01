#pragma once
// What `tandem import` tells: what a plan's model was made of, what it leaves out, and how far it is from the model.

#include <optional>
#include <string>

#include "models/base/json.hpp"
#include "models/huggingface/imported_model.hpp"

namespace tandem::import {

/// A whole plan in place of a preset.
struct PlanRequest {
  std::string cluster;       ///< empty: a preset of the model alone
  std::int64_t devices = 1;
};

/// A model beside the plan's of it. Counts of FLOPs are those of a token's forward and backward pass.
struct Import {
  huggingface::ImportedModel model;
  bool approximate = false;
  bool refused = false;                 ///< it has features that a plan cannot say, and no approximation was asked for
  std::int64_t plan_parameters = 0;
  std::optional<double> plan_flops;     ///< where the family has a closed form
  nlohmann::ordered_json document() const;                        ///< a preset file
  nlohmann::ordered_json document(const PlanRequest& plan) const; ///< a plan file, or a preset where it names no cluster
};

/// Reads a configuration and counts its plan's parameters and FLOPs. Throws ConfigError and InfeasibleError as import_model and as
/// a plan with that model would.
Import make_import(const std::string& path, std::int64_t sequence, bool approximate);

std::string to_text(const Import& import);
std::string to_json(const Import& import, const nlohmann::ordered_json& document);

}  // namespace tandem::import
