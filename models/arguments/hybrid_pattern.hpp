#pragma once
// Megatron-LM's patterns of hybrid models, a letter a layer: M Mamba 2, G gated delta net, * attention, + latent attention, D latent
// attention with an indexer, - an MLP, E experts. "|" stands between chunks of the pipeline, "/" before modules of multi-token prediction.
// NVIDIA/Megatron-LM d98e8a64: megatron/core/models/hybrid/hybrid_layer_allocation.py.

#include <string>
#include <vector>

#include "models/base/json.hpp"

namespace tandem::arguments {

/// The model's letters, without marks and modules of multi-token prediction. Null for what is no text.
nlohmann::json layers_of_pattern(const nlohmann::json& pattern);

/// Layers of each chunk of the pipeline; null for a pattern that has only one.
nlohmann::json chunks_of_pattern(const nlohmann::json& pattern);

/// Letters of the first module of multi-token prediction; null without one.
nlohmann::json prediction_of_pattern(const nlohmann::json& pattern);

/// The letters that --hybrid-attention-ratio and --hybrid-mlp-ratio meant (pattern_from_ratios of the same file).
nlohmann::json pattern_of_ratios(const nlohmann::json& layers, const nlohmann::json& attention, const nlohmann::json& mlp);

/// 1 for each layer with experts, 0 for each with an MLP; other layers are like the next of these. Null if an MLP stands behind experts.
nlohmann::json experts_of_pattern(const nlohmann::json& letters);

/// The pattern of a plan's layers: `layers`, `sublayers`, the letters of `recurrence`, the names of a `recurrent` and an `attending`
/// layer, the first layer with `experts`, and each `frequency`-th behind it (null: none), layers of `chunks` (null: no marks). Null where
/// a layer has a mixer and an MLP.
nlohmann::json pattern_of_layers(const std::vector<nlohmann::json>& a);

/// "[1,1,0]": 1 for each of `layers` whose letter is `one`.
nlohmann::json ones_of_letters(const nlohmann::json& letters, const nlohmann::json& one, const nlohmann::json& layers);

}  // namespace tandem::arguments
