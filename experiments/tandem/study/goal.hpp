#pragma once
// What a whole training takes: days, device hours and what they cost, where a study says how many tokens it is about.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/base/json.hpp"

namespace tandem::study {

struct Goal {
  double tokens = 0;                     ///< of the whole training
  double goodput = 1;                    ///< share of the time in which steps are done that stay
  std::optional<double> days;            ///< the training may take
  std::map<std::string, double> prices;  ///< of a device hour, by cluster.preset (a user's own by its file's name); "" for every cluster. Empty: none was given
};

/// Reads `goal` of a study `file`; `clusters` are those that its plans name. Throws ConfigError with field, value, reason and remedy.
Goal read_goal(const nlohmann::json& goal, const std::string& file, const std::vector<std::string>& clusters);

/// Gives a predicted row training_days, device_hours, in_time (where days were given) and cost (where prices were), in place of
/// those of an earlier goal; takes them away where there is none.
void add_goal(nlohmann::ordered_json& row, const std::optional<Goal>& goal);

/// Whether a row fits and is in time.
bool meets(const nlohmann::ordered_json& row, const std::optional<Goal>& goal);

/// What ranks a row, least first: cost, or device hours without prices; without a goal the negated model FLOP/s of a device.
double rank_of(const nlohmann::ordered_json& row, const std::optional<Goal>& goal);

}  // namespace tandem::study
