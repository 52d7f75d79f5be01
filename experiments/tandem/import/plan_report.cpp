#include "experiments/tandem/import/plan_report.hpp"

#include <nlohmann/json.hpp>

#include "experiments/tandem/explain/field_origins.hpp"
#include "experiments/tandem/import/origins.hpp"
#include "models/base/dotted_path.hpp"
#include "models/base/text.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::import {

using nlohmann::ordered_json;

namespace {

std::string filled_text(const arguments::ImportedPlan& plan, const ordered_json& filled) {
  std::string out;
  for (const auto& [field, value] : filled.items()) {
    const std::string words = program::meaning(field, value);
    out += "  " + padded(field, 52) + value_text(value) + (words.empty() ? "" : " (" + words + ")") + "\n";
  }
  const std::string other = "; of other code: --stack " + plan.stack.name + "@YYYY-MM";
  return out.empty() ? out : "filled in by rules of the stack" + other + "\n" + out;
}

}  // namespace

ordered_json filled_by_stack(const Plan& plan, const ordered_json& document) {
  const nlohmann::json whole = nlohmann::json::parse(tandem::to_json(plan)), said = nlohmann::json(document);
  ordered_json out = ordered_json::object();
  for (const StackDefault& d : plan.stack.facts.defaults) {
    const nlohmann::json* value = find_dotted(whole, d.field);
    if (value != nullptr && find_dotted(said, d.field) == nullptr) out[d.field] = *value;
  }
  return out;
}

std::string to_text(const arguments::ImportedPlan& plan, bool approximate, const ordered_json& filled) {
  std::string out = plan.file + (plan.printed ? ": arguments that a program printed" : ": options") + "; " + list_text(plan.sources) + "\n";
  out += "stack " + plan.stack.name + " as of " + text_of(plan.as_of) + "\n";
  out += fields_text(plan.fields, Origin::used, "used");
  out += fields_text(plan.fields, Origin::defaulted, "not given: the framework's default");
  out += fields_text(plan.fields, Origin::derived, "derived");
  out += filled_text(plan, filled);
  out += list_line("changes no operation", plan.ignored) + list_line("no field of a plan says it", plan.unsaid) +
         list_line("left to the program (\"auto\")", plan.automatic) +
         list_line("no argument of the framework that is known here", plan.unknown);
  return out + features_text(plan.features, approximate);
}

std::string to_json(const arguments::ImportedPlan& plan, bool approximate, const ordered_json& filled) {
  const bool refused = !arguments::refusals(plan).empty();
  const ordered_json out = {{"schema_version", 1}, {"file", plan.file}, {"stack", plan.stack.name}, {"as_of", text_of(plan.as_of)}, {"sources", plan.sources},
                            {"status", !refused ? "read" : approximate ? "approximated" : "refused"},
                            {"fields", fields_json(plan.fields)}, {"filled", filled}, {"ignored", plan.ignored}, {"unsaid", plan.unsaid}, {"automatic", plan.automatic},
                            {"unknown", plan.unknown}, {"features", features_json(plan.features)},
                            {"document", refused && !approximate ? ordered_json() : *plan.document}};
  return out.dump(2) + "\n";
}

}  // namespace tandem::import
