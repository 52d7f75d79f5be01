#pragma once
// Where the fields of an imported plan come from, and what is left out, as text and JSON.

#include <string>
#include <vector>

#include "models/base/json.hpp"
#include "models/huggingface/imported_model.hpp"

namespace tandem::import {

/// The origin of a plan field's value.
enum class Origin { used, defaulted, derived, architecture };

/// A line for each field of this origin, under a title. Empty if there is none.
std::string fields_text(const std::vector<huggingface::ImportedField>& fields, Origin origin, const std::string& title);
nlohmann::ordered_json fields_json(const std::vector<huggingface::ImportedField>& fields);

/// A line for each feature under a title. `approximate`: refused ones were left out instead.
std::string features_text(const std::vector<huggingface::MissingFeature>& features, bool approximate);
nlohmann::ordered_json features_json(const std::vector<huggingface::MissingFeature>& features);

/// "title: a, b and c", a line. Empty if there are no names.
std::string list_line(const std::string& title, const std::vector<std::string>& names);

}  // namespace tandem::import
