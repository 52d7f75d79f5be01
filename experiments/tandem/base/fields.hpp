#pragma once
// Dotted fields of a plan's JSON.

#include <string>

#include "models/base/json.hpp"

namespace tandem::study {

/// Sets `field` ("parallel.tensor") of a plan, objects on the way made where they are missing; null removes the field.
void set_field(nlohmann::json& plan, const std::string& field, const nlohmann::json& value);

/// What is wrong with the name of a field: empty when plans have it (objects too), else value, reason and remedy.
Problem unknown_field(const std::string& field);

/// Derives parallel.data from cluster.devices and the other degrees, or cluster.devices from all degrees. Returns why
/// it cannot be, or nothing.
std::string fill_field(nlohmann::json& plan, const std::string& field);

}  // namespace tandem::study
