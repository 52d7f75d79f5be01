#pragma once
// What is known of a model type of transformers: a file of types/, completed by the files that it is like.

#include <memory>
#include <string>
#include <vector>

#include "models/base/json.hpp"

namespace tandem::huggingface {

/// The folder of the tables, as find_preset takes it.
inline constexpr const char* kTypesFolder = "models/huggingface/types";

/// A configuration's type.
struct ModelType {
  std::string name;      ///< as the document says it
  std::string inner;     ///< the object in the document that describes the language model; empty: the document itself
  std::shared_ptr<const nlohmann::json> table;  ///< facts, defaults, plan, weights, features and ignored fields (models/huggingface/README.md)
};

/// Throws ConfigError where the document names no type, or none that is known, with the nearest that is.
ModelType model_type_of(const nlohmann::json& config, const std::string& file);

/// Model types that configurations may name, sorted.
std::vector<std::string> known_model_types();

}  // namespace tandem::huggingface
