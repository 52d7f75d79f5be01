#include "experiments/tandem/study/goal.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "sim/result/error_book.hpp"

namespace tandem::study {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

const std::vector<std::string> kKeys = {"tokens", "days", "goodput", "device_hour_price"};

[[noreturn]] void refuse(const std::string& file, const std::string& field, const json& value, const std::string& reason,
                         const std::string& remedy) {
  throw ConfigError(Problem{file, field, value.is_null() ? "" : value_text(value), reason, remedy});
}

// Limits that keep all results finite.
constexpr double kMostTokens = 1e18, kMostDays = 1e6, kMostPrice = 1e9, kLeastGoodput = 1e-3;

double positive(const json& value, double most, const std::string& file, const std::string& field, const std::string& remedy) {
  if (!value.is_number() || value.get<double>() <= 0) refuse(file, field, value, "must be a number above zero", remedy);
  if (value.get<double>() > most) refuse(file, field, value, "is more than " + value_text(json(most)), remedy);
  return value.get<double>();
}

/// A preset's name, or the file name of a user's own preset, independent of the folder.
std::string short_name(const std::string& preset) {
  return is_preset_path(preset) ? std::filesystem::path(preset).filename().string() : preset;
}

std::map<std::string, double> prices(const json& given, const std::string& file, std::vector<std::string> clusters) {
  for (std::string& cluster : clusters) cluster = short_name(cluster);
  const std::string field = "goal.device_hour_price", remedy = "give what a device costs an hour, in any currency";
  if (!given.is_object()) return {{"", positive(given, kMostPrice, file, field, remedy)}};
  std::map<std::string, double> out;
  for (const auto& [cluster, price] : given.items()) {
    if (std::find(clusters.begin(), clusters.end(), short_name(cluster)) == clusters.end())
      refuse(file, field + "." + cluster, price, "no plan of the study is on this cluster", "they are on " + list_text(clusters));
    out[short_name(cluster)] = positive(price, kMostPrice, file, field + "." + cluster, remedy);
  }
  for (const std::string& cluster : clusters)
    if (!out.count(cluster)) refuse(file, field, given, "has no price for " + cluster, "give one for every cluster of the study");
  return out;
}

}  // namespace

Goal read_goal(const json& goal, const std::string& file, const std::vector<std::string>& clusters) {
  if (!goal.is_object()) refuse(file, "goal", goal, "must be an object", "give {\"tokens\": 2e12, \"days\": 30}");
  for (const auto& [key, value] : goal.items())
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
      refuse(file, "goal." + key, value, "is not known here", "there are " + list_text(kKeys));
  Goal out;
  if (!goal.contains("tokens")) refuse(file, "goal.tokens", {}, "is missing", "say how many tokens are trained on, e.g. 2e12");
  out.tokens = positive(goal["tokens"], kMostTokens, file, "goal.tokens", "say how many tokens are trained on, e.g. 2e12");
  if (goal.contains("days"))
    out.days = positive(goal["days"], kMostDays, file, "goal.days", "say how long the training may take, or leave it out");
  if (goal.contains("goodput")) out.goodput = positive(goal["goodput"], 1, file, "goal.goodput", "give a share of time, e.g. 0.9");
  if (out.goodput < kLeastGoodput)
    refuse(file, "goal.goodput", goal["goodput"], "is less than " + value_text(json(kLeastGoodput)),
           "give a share of time, e.g. 0.9");
  if (goal.contains("device_hour_price")) out.prices = prices(goal["device_hour_price"], file, clusters);
  return out;
}

void add_goal(ordered_json& row, const std::optional<Goal>& of) {
  for (const char* key : {"training_days", "training_days_low", "training_days_high", "device_hours", "in_time", "cost", "cost_without_idle"}) row.erase(key);  // left by an earlier goal
  if (!of) return;
  const Goal& goal = *of;
  if (!row.contains("tokens_per_s") || row["tokens_per_s"].get<double>() <= 0) return;
  const double hours = goal.tokens / row["tokens_per_s"].get<double>() / goal.goodput / 3600;
  row["training_days"] = hours / 24;
  for (const char* end : {"low", "high"})
    row[std::string("training_days_") + end] =
        hours / 24 * row[std::string("step_time_") + end + "_s"].get<double>() / row["step_time_s"].get<double>();
  row["device_hours"] = hours * row["layout"]["devices"].get<double>();
  if (goal.days) row["in_time"] = likely(row) * hours / 24 <= *goal.days;
  if (goal.prices.empty()) return;
  const auto own = goal.prices.find(short_name(row["layout"]["cluster"].get<std::string>()));
  const double price = own != goal.prices.end() ? own->second : goal.prices.at("");
  row["cost"] = hours * (row["layout"]["devices"].get<double>() + row.value("idle_devices", 0.0)) * price;
  row["cost_without_idle"] = row["device_hours"].get<double>() * price;
}

bool meets(const ordered_json& row, const std::optional<Goal>& goal) {
  if (row["status"] != "ok" || !(row["model_tflops_per_device"] > 0)) return false;
  return !goal || !goal->days || row["in_time"] == true;
}

double likely(const ordered_json& row) {
  if (!row.value("step_time_bound", false)) return 1;
  return sim::middle_of_range(row["step_time_low_s"].get<double>(), row["step_time_high_s"].get<double>()) / row["step_time_s"].get<double>();
}

double rank_of(const ordered_json& row, const std::optional<Goal>& goal) {
  if (!goal) return -row["model_tflops_per_device"].get<double>() / likely(row);
  return likely(row) * row[goal->prices.empty() ? "device_hours" : "cost"].get<double>();
}

}  // namespace tandem::study
