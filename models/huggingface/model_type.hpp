#pragma once
// The table of a transformers model type: a file of types/, completed by the files that it refers to.

#include <memory>
#include <string>
#include <vector>

#include "models/base/json.hpp"

namespace tandem::huggingface {

/// Folder of the tables, for find_preset.
inline constexpr const char* kTypesFolder = "models/huggingface/types";

/// The model type of a configuration, with its table.
struct ModelType {
  std::string name;      ///< as in the document
  std::string inner;     ///< dotted path of the object that describes the language model; empty: the document itself
  std::shared_ptr<const nlohmann::json> table;  ///< facts, defaults, plan, weights, features, ignored (models/huggingface/README)
};

/// Throws ConfigError if the document names no type, or an unknown one; the message has the nearest known one.
ModelType model_type_of(const nlohmann::json& config, const std::string& file);

/// Model types that configurations may name, sorted.
std::vector<std::string> known_model_types();

}  // namespace tandem::huggingface
