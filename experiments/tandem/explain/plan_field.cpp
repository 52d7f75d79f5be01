#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/explain/rows.hpp"
#include "models/base/json.hpp"
#include "models/base/text.hpp"
#include "models/stack/unmet_defaults.hpp"
#include "reports/prediction/plan_title.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {
namespace {

using nlohmann::json;

/// The schema of a field, or null: fields may lie in a part that is described as "one of several".
const json* field_schema(const json& schema, const std::string& path) {
  const json* at = &schema;
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t dot = std::min(path.find('.', from), path.size());
    if (!at->contains("properties") || !at->at("properties").contains(path.substr(from, dot - from))) return nullptr;
    at = &at->at("properties").at(path.substr(from, dot - from));
    from = dot + 1;
  }
  return at;
}

/// The plan file's text with another value of a field.
std::string with_value(const std::string& text, const std::string& field, const std::string& value) {
  json document = json::parse(text);
  std::string pointer = "/" + field;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  document[json::json_pointer(pointer)] = json::parse(value);
  return document.dump();
}

/// A rule's value as a reader understands it.
std::string rule_value(const std::string& field, const std::string& value) {
  const std::string meant = meaning(field, json::parse(value));
  return meant.empty() ? value : meant;
}

/// "; with true a step takes 5.71 s, 9.3 % less". Empty if the plan cannot be so.
std::string step_with(const ExplainedCase& c, const std::string& field, const std::string& value) {
  try {
    const PreparedPlan other = prepare_text(with_value(c.text, field, value), c.plan.file, c.origins.stack);
    const Prediction p = sim::simulate(other.plan, other.graph, *topology_of(other.plan, ""));
    const double change = p.step_time.seconds() / c.prediction.step_time.seconds() - 1;
    return "; with " + rule_value(field, value) + " a step takes " + time_text(p.step_time.seconds()) + ", " +
           percent_text(change) + (p.fits ? "" : ", and does not fit");
  } catch (const InfeasibleError&) {
    return "";
  }
}

/// Rules of the stack for a field that has its default, and why they do not hold.
std::string unmet_text(const ExplainedCase& c, const std::string& field) {
  if (!is_default(c.plan, c.origins, field)) return "";
  std::string out;
  for (const UnmetDefault& rule : unmet_defaults(c.plan, field))
    out += "; a rule of stack " + c.plan.stack.name + " for " + rule_value(field, rule.value) + " does not hold, as " +
           list_text(rule.unmet) + step_with(c, field, rule.value) + " (" + rule.source + ")";
  return out;
}

}  // namespace

Explanation explain_plan_field(const ExplainedCase& c, const std::string& key) {
  const std::string path = key == "plan" ? "" : key.substr(std::string("plan.").size());
  const json schema = json::parse(plan_json_schema());
  const json* field = path.empty() ? nullptr : field_schema(schema, path);
  Explanation out;
  out.formula = field && field->contains("description") ? field->at("description").get<std::string>() : "part of the completed plan, with every default filled in";
  if (field && field->contains("default")) out.formula += " Default: " + field->at("default").dump() + ".";
  out.filled = origin_text(c.plan, c.origins, path) + unmet_text(c, path);
  out.range = "exact: an input";
  return out;
}

}  // namespace tandem::program
