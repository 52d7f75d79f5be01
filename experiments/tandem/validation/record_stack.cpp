#include "experiments/tandem/validation/record_stack.hpp"

#include <optional>

#include <nlohmann/json.hpp>

#include "models/base/presets.hpp"
#include "models/plan/month.hpp"

namespace tandem::program {

namespace {

using nlohmann::json;

/// A key's text; nullopt if it is missing or null. Throws ConfigError for other types.
std::optional<std::string> text_of(const json& record, const char* key, const std::string& remedy, const std::string& place) {
  const json value = record.value(key, json());
  if (value.is_null()) return std::nullopt;
  if (value.is_string() && value != "") return value.get<std::string>();
  throw ConfigError(Problem{place, key, value_text(value), "must be a string", remedy});
}

std::optional<std::string> month_of(const json& record, const std::string& place) {
  const std::string remedy = "write year and month as YYYY-MM, for example \"2024-07\", or leave it out";
  const std::optional<std::string> month = text_of(record, "as_of", remedy, place);
  if (!month || parse_month(*month)) return month;
  throw ConfigError(Problem{place, "as_of", value_text(*month), "is no month", remedy});
}

}  // namespace

std::string set_stack(json& plan, const json& record, const std::string& place) {
  const std::optional<std::string> framework =
      text_of(record, "framework", "name a framework, for example \"torchtitan\", or leave it out", place);
  const std::optional<std::string> month = month_of(record, place);
  const bool known = framework && !find_preset("models/stacks", *framework).empty();
  const std::string unknown = framework && !known ? *framework : "";
  if (!plan.is_object()) return unknown;
  json stack = plan.value("stack", json());
  if (stack.is_string()) stack = json::object({{"name", stack}});
  if (!stack.is_null() && !stack.is_object()) return unknown;
  if (known) stack["name"] = *framework;
  if (month) stack["as_of"] = *month;
  if (!stack.is_null()) plan["stack"] = stack;
  return unknown;
}

}  // namespace tandem::program
