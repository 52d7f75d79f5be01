#include <nlohmann/json.hpp>

#include "models/fields/plan_fields.hpp"

namespace tandem {
namespace {

using nlohmann::ordered_json;

/// The object that holds the last key of a dotted path; objects on the way are made.
ordered_json& parent_of(ordered_json& root, std::string_view path, std::string& last) {
  ordered_json* at = &root;
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    at = &(*at)[std::string(path.substr(0, dot))];
    path.remove_prefix(dot + 1);
  }
  last = std::string(path);
  return *at;
}

void put(ordered_json& root, std::string_view path, ordered_json value) {
  std::string key;
  parent_of(root, path, key)[key] = std::move(value);
}

ordered_json closed_object() {
  return {{"type", "object"}, {"additionalProperties", false}, {"properties", ordered_json::object()}};
}

/// The schema of the object at a dotted prefix; made with its parents on first use.
ordered_json& object_schema(ordered_json& root, std::string_view path) {
  ordered_json* at = &root;
  while (!path.empty()) {
    const std::size_t dot = path.find('.');
    ordered_json& child = (*at)["properties"][std::string(path.substr(0, dot))];
    if (child.is_null()) child = closed_object();
    at = &child;
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return *at;
}

ordered_json field_schema(const PlanField& f) {
  static const Plan defaults;
  ordered_json s = f.schema();
  const nlohmann::json fallback = f.write(defaults);
  s["description"] = f.description + (f.fallback.empty() ? "" : " Default: " + f.fallback + ".");
  if (!f.required && f.fallback.empty() && !fallback.is_null()) s["default"] = fallback;
  return s;
}

ordered_json required_of(std::string_view part) {
  ordered_json keys = ordered_json::array();
  for (const PlanField& f : plan_fields()) {
    if (f.required && f.path.starts_with(part)) keys.push_back(f.path.substr(part.size()));
  }
  return keys;
}

}  // namespace

std::string to_json(const Plan& plan, int indent) {
  ordered_json doc = ordered_json::object();
  for (const PlanField& f : plan_fields()) {
    const nlohmann::json value = f.write(plan);
    if (!value.is_null()) put(doc, f.path, value);
  }
  return doc.dump(indent);
}

std::string plan_json_schema() {
  ordered_json schema{{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "Tandem plan"}};
  schema.update(closed_object());
  for (const PlanField& f : plan_fields()) {
    const std::size_t dot = f.path.rfind('.');
    const std::string parent = dot == std::string::npos ? "" : f.path.substr(0, dot);
    object_schema(schema, parent)["properties"][f.path.substr(dot == std::string::npos ? 0 : dot + 1)] =
        field_schema(f);
  }
  for (const std::string part : {"model", "training"}) {
    object_schema(schema, part)["anyOf"] = {{{"required", {"preset"}}}, {{"required", required_of(part + ".")}}};
  }
  // Devices are the product of the degrees where these, or a preset of them, say parallel.data.
  object_schema(schema, "cluster")["required"] = {"preset"};
  schema["anyOf"] = ordered_json::array({{{"properties", {{"cluster", {{"required", required_of("cluster.")}}}}}}});
  for (const char* field : {"data", "preset"})
    schema["anyOf"].push_back({{"required", {"parallel"}}, {"properties", {{"parallel", {{"required", {field}}}}}}});
  schema["required"] = {"model", "training", "cluster"};
  schema["properties"]["stack"]["type"] = {"string", "object"};  // "megatron-core" is {"name": "megatron-core"}
  return schema.dump(2);
}

}  // namespace tandem
