#include "models/stack/unmet_defaults.hpp"

#include <nlohmann/json.hpp>

#include "models/base/text.hpp"
#include "models/fields/plan_fields.hpp"
#include "models/stack/condition.hpp"
#include "models/stack/stack_file.hpp"

namespace tandem {
namespace {

using nlohmann::json;

std::string values_text(const json& list) {
  std::vector<std::string> words;
  for (const json& v : list) words.push_back(v.dump());
  return list_text(words, "or");
}

/// What a value would have to be for one constraint: "not 1 or 2", "below 2".
std::string failing(const std::string& constraint, const json& of, const Plan& plan) {
  if (constraint == "allowed") return "not " + values_text(of);
  if (constraint == "min") return "below " + of.dump();
  if (constraint == "max") return "above " + of.dump();
  if (constraint == "includes") return "without " + values_text(of);
  if (constraint == "multiple_of") return "no multiple of " + std::to_string(divisor(plan, of));
  return "one of the excepted";
}

void add_conditions(const json& when, const Plan& plan, std::vector<std::string>& out) {
  for (const auto& [field, condition] : when.items()) {
    const json value = value_of(plan, field);
    for (const auto& [constraint, of] : condition.items())
      if (!satisfied({{constraint, of}}, value, plan)) out.push_back(field + " is " + value.dump() + ", " + failing(constraint, of, plan));
  }
}

std::vector<std::string> unmet_of(const StackEntry& entry, const Plan& plan) {
  const Month as_of = plan.stack.as_of;
  std::vector<std::string> out;
  if (entry.since && as_of < *entry.since) out.push_back("stack.as_of is " + text_of(as_of) + ", before " + text_of(*entry.since));
  if (entry.until && as_of >= *entry.until) out.push_back("stack.as_of is " + text_of(as_of) + ", not before " + text_of(*entry.until));
  add_conditions(*entry.when, plan, out);
  return out;
}

/// Whether the rule excludes the quantity that its value is a multiple of. The framework never has such a multiple.
bool is_out_of_range(const DefaultEntry& entry, const Plan& plan) {
  const auto range = entry.when->find(entry.times);
  return !entry.times.empty() && range != entry.when->end() && !satisfied(*range, value_of(plan, entry.times), plan);
}

}  // namespace

std::vector<UnmetDefault> unmet_defaults(const Plan& plan, const std::string& field) {
  std::vector<UnmetDefault> out;
  if (!is_stack(plan.stack.name)) return out;
  const PlanField* known = find_field(field);
  for (const DefaultEntry& entry : load_stack(plan.stack.name)->defaults) {
    const json value = entry.value_for(plan);
    if (entry.field != field || is_out_of_range(entry, plan) || value == known->write(plan)) continue;
    if (auto unmet = unmet_of(entry, plan); !unmet.empty()) out.push_back({value.dump(), entry.source, std::move(unmet)});
  }
  return out;
}

}  // namespace tandem
