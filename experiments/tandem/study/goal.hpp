#pragma once
// The cost of a whole training: days, device hours and money, if a study gives its number of tokens.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/base/json.hpp"

namespace tandem::study {

struct Goal {
  double tokens = 0;                     ///< of the whole training
  double goodput = 1;                    ///< fraction of time spent on steps that are not lost
  std::optional<double> days;            ///< limit on the training's days
  std::map<std::string, double> prices;  ///< per device hour, by cluster.preset (a user's own: by file name); "": every cluster
};

/// Reads `goal` of the study `file`. `clusters`: those of its plans. Throws ConfigError with field, value, reason and remedy.
Goal read_goal(const nlohmann::json& goal, const std::string& file, const std::vector<std::string>& clusters);

/// Sets training_days with the ends of its range, device_hours, in_time (if days are given), cost and cost_without_idle (if prices are given; of rented and of used devices) of a predicted row, replacing
/// earlier values. Without a goal removes them.
void add_goal(nlohmann::ordered_json& row, const std::optional<Goal>& goal);

/// True if a row fits and is in time.
bool meets(const nlohmann::ordered_json& row, const std::optional<Goal>& goal);

/// How many times as long as its step time a row's step is taken to be in ranks and for the goal's days. 1, but for a bound, which is
/// the least of its range: there the (geometric) middle of the range counts.
double likely(const nlohmann::ordered_json& row);

/// A row's rank, lowest first: cost, or device hours without prices; without a goal, minus the model FLOP/s per device; each of likely()
/// steps.
double rank_of(const nlohmann::ordered_json& row, const std::optional<Goal>& goal);

}  // namespace tandem::study
