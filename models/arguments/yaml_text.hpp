#pragma once
// YAML files as JSON, with the scalars that OmegaConf reads, and back.

#include <string>

#include "models/base/json.hpp"

namespace tandem::arguments {

/// The document of a YAML text. Plain scalars are those of YAML 1.1 (`yes` is true), and 1e-5 is a number, as OmegaConf has it;
/// anchors and `<<` are expanded. Throws ConfigError with line and column for a text that is no YAML, a key that stands twice, a tag
/// of a program's own, several documents, or anchors that expand to too much.
nlohmann::json parse_yaml(const std::string& text, const std::string& file);

/// An object as YAML, in blocks, lists in one line. Words that YAML 1.1 reads as something else have quotes, and 1e-5 has a point:
/// PyYAML takes 1e-05 for a word.
std::string yaml_text(const nlohmann::ordered_json& object);

}  // namespace tandem::arguments
