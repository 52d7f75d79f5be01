#include "experiments/tandem/explain/field_origins.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "reports/prediction/plan_title.hpp"

namespace tandem::program {
namespace {

using nlohmann::json;

/// Adds the fields below `prefix`, by their present names.
void add_fields(const json& object, const std::string& prefix, Given& out) {
  for (const auto& [key, value] : object.items()) {
    const std::string path = prefix + key;
    if (const PlanField* field = find_field(path)) out.insert(field->path);
    if (value.is_object()) add_fields(value, path + ".", out);
  }
}

Given own_fields(const json& document) {
  Given out;
  add_fields(document, "", out);
  if (!document.contains("stack") || !document["stack"].is_string()) return out;
  out.insert("stack.name");
  if (document["stack"].get<std::string>().find('@') != std::string::npos) out.insert("stack.as_of");
  return out;
}

/// The field at a path or around it, null for an object of fields.
const PlanField* field_at(std::string path) {
  while (!path.empty()) {
    if (const PlanField* field = find_field(path)) return field;
    path.resize(path.rfind('.') == std::string::npos ? 0 : path.rfind('.'));
  }
  return nullptr;
}

const StackDefault* rule_of(const Plan& plan, const std::string& field) {
  const auto& defaults = plan.stack.facts.defaults;
  const auto found = std::find_if(defaults.begin(), defaults.end(), [&](const StackDefault& d) { return d.field == field; });
  return found == defaults.end() ? nullptr : &*found;
}

bool asked(const FieldOrigins& origins, const std::string& field) { return !origins.stack.empty() && field.starts_with("stack."); }

std::string preset_of(const FieldOrigins& origins, const std::string& field) {
  const auto preset = origins.presets.find(field.substr(0, field.find('.')));
  return preset == origins.presets.end() ? "" : preset->second;
}

std::string default_text(const Plan& plan, const FieldOrigins& origins, const PlanField& field) {
  const std::string preset = preset_of(origins, field.path);
  const std::string gives = preset.empty() ? plan.file + " does not give it" : "neither " + plan.file + " nor its preset " + preset + " gives it";
  return "the default" + (field.fallback.empty() ? "" : " (" + field.fallback + ")") + ": " + gives;
}

}  // namespace

FieldOrigins field_origins(const std::string& text, const Plan& plan, const std::string& stack) {
  const json document = parse_json(text, plan.file);
  FieldOrigins out;
  out.own = own_fields(document);
  out.given = given_fields(text, plan.file);
  for (const auto& [part, value] : document.items())
    if (part != "cluster" && value.is_object() && value.contains("preset") && value["preset"].is_string()) out.presets[part] = value["preset"];
  out.stack = stack;
  out.derived = derived_ranks(plan, out.given);
  return out;
}

bool is_default(const Plan& plan, const FieldOrigins& origins, const std::string& field) {
  const bool given = origins.given.contains(field) || asked(origins, field);
  return !given && origins.derived.field != field && rule_of(plan, field) == nullptr;
}

std::string meaning(const std::string& field, const json& value) {
  if (field != "parallel.bucket_bytes" || value != find_field(field)->schema().at("maximum")) return "";
  return "all gradients at once";
}

std::string origin_text(const Plan& plan, const FieldOrigins& origins, const std::string& path) {
  const PlanField* field = field_at(path);
  if (field == nullptr) return "fields from " + plan.file + ", its presets, rules of " + stack_text(plan) + " and defaults";
  if (origins.derived.field == field->path) return "left out, so derived: " + origins.derived.from;
  if (const StackDefault* rule = rule_of(plan, field->path)) return "from the rule of " + stack_text(plan) + ": " + rule->source;
  if (asked(origins, field->path)) return "from --stack";
  if (origins.own.contains(field->path)) return "from " + plan.file;
  if (origins.given.contains(field->path)) return "from the preset " + preset_of(origins, field->path) + ", which " + plan.file + " names";
  return default_text(plan, origins, *field);
}

}  // namespace tandem::program
