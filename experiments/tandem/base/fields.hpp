#pragma once
// Access to fields of a plan's JSON by dotted name.

#include <cstdint>
#include <string>

#include "models/base/json.hpp"

namespace tandem::study {

/// The present name of a field that may be named by an older one. Other names are returned as they are.
std::string present_name(const std::string& field);

/// Sets the field `said` (e.g. "parallel.tensor") of a plan. Creates missing objects on the way. null removes the field.
/// The plan and `said` may have older names of it; the plan then has the present one.
void set_field(nlohmann::json& plan, const std::string& said, const nlohmann::json& value);

/// The problem of a field's name. Empty if plans have that field or object; else with value, reason and remedy.
Problem unknown_field(const std::string& field);

/// Derives parallel.data from cluster.devices, the ranks of each and the other degrees, or cluster.devices from all of these. Returns the reason if
/// that is impossible, else "".
std::string fill_field(nlohmann::json& plan, const std::string& field);

/// Devices of a plan that leaves cluster.devices out and says parallel.data: what its degrees, and those of its preset, come to. 0 where
/// they do not follow. Throws as reading the plan does; its `training` is not read.
std::int64_t devices_by_degrees(nlohmann::json plan, const std::string& file);

}  // namespace tandem::study
