#pragma once
// What an imported plan says.

#include <nlohmann/json.hpp>
#include <string>

#include "models/arguments/imported_plan.hpp"
#include "models/base/dotted_path.hpp"

namespace tandem::tests {

/// The field at a dotted path of an imported plan's document; null if it is not there.
inline nlohmann::json field(const arguments::ImportedPlan& plan, const std::string& path) {
  const nlohmann::json document = nlohmann::json::parse(plan.document->dump());
  const nlohmann::json* value = find_dotted(document, path);
  return value == nullptr ? nlohmann::json() : *value;
}

}  // namespace tandem::tests
