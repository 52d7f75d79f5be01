#include "experiments/tandem/import/plan_report.hpp"

#include <nlohmann/json.hpp>

#include "experiments/tandem/import/origins.hpp"
#include "models/base/text.hpp"

namespace tandem::import {

using nlohmann::ordered_json;

std::string to_text(const arguments::ImportedPlan& plan, bool approximate) {
  std::string out = plan.file + (plan.printed ? ": arguments that a program printed" : ": options") + "; " + list_text(plan.sources) + "\n";
  out += "stack " + plan.stack.name + " as of " + text_of(plan.as_of) + "\n";
  out += fields_text(plan.fields, Origin::used, "used");
  out += fields_text(plan.fields, Origin::defaulted, "left out: the framework's default");
  out += fields_text(plan.fields, Origin::derived, "derived");
  out += list_line("changes no operation", plan.ignored) + list_line("no field of a plan says it", plan.unsaid) +
         list_line("left to the program (\"auto\"); the plan has its own defaults", plan.automatic) +
         list_line("no argument of the framework that is known here", plan.unknown);
  return out + features_text(plan.features, approximate);
}

std::string to_json(const arguments::ImportedPlan& plan, bool approximate) {
  const bool refused = !arguments::refusals(plan).empty();
  const ordered_json out = {{"schema_version", 1}, {"file", plan.file}, {"stack", plan.stack.name}, {"as_of", text_of(plan.as_of)}, {"sources", plan.sources},
                            {"status", !refused ? "read" : approximate ? "approximated" : "refused"},
                            {"fields", fields_json(plan.fields)}, {"ignored", plan.ignored}, {"unsaid", plan.unsaid}, {"automatic", plan.automatic},
                            {"unknown", plan.unknown}, {"features", features_json(plan.features)},
                            {"document", refused && !approximate ? ordered_json() : *plan.document}};
  return out.dump(2) + "\n";
}

}  // namespace tandem::import
