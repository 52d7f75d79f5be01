#include "experiments/tandem/base/fields.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/text.hpp"
#include "models/fields/plan_fields.hpp"
#include "models/plan/plan.hpp"
#include "models/planfile/plan_draft.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::study {

namespace {

using nlohmann::json;

std::vector<std::string> parts_of(const std::string& field) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t dot; (dot = field.find('.', begin)) != std::string::npos; begin = dot + 1)
    parts.push_back(field.substr(begin, dot - begin));
  parts.push_back(field.substr(begin));
  return parts;
}

/// Removes a field from the object around it, whichever of its names stands there.
void erase_field(json& group, const std::string& field) {
  const std::string place = field.substr(0, field.rfind('.') + 1);  // none for a field of the top
  std::vector<std::string> found;
  for (const auto& [key, unused] : group.items())
    if (present_name(place + key) == field) found.push_back(key);
  for (const std::string& key : found) group.erase(key);
}

/// The properties of an object in a schema. If the schema also allows other types, those of the object.
const json* properties(const json& schema) {
  if (schema.contains("properties")) return &schema["properties"];
  for (const char* key : {"anyOf", "oneOf"})
    if (schema.contains(key))
      for (const json& option : schema[key])
        if (option.contains("properties")) return &option["properties"];
  return nullptr;
}

/// The field of that name in some group ("tensor": "parallel.tensor"), else the nearest of `names`; "" if there is none.
std::string nearest_or_below(const std::string& part, const std::vector<std::string>& names) {
  for (const PlanField& f : plan_fields())
    if (f.path.ends_with("." + part)) return f.path;
  return nearest(part, names);
}

/// A parallel degree of a plan; 1 if it is not given.
std::int64_t degree(const json& plan, const char* name) {
  const json& parallel = plan.contains("parallel") ? plan["parallel"] : json::object();
  return parallel.is_object() && parallel.contains(name) && parallel[name].is_number_integer()
             ? parallel[name].get<std::int64_t>()
             : 1;
}

std::int64_t ranks_per_device(const json& plan) {
  const json::json_pointer place("/cluster/override/ranks_per_device");
  return plan.contains(place) && plan[place].is_number_integer() ? std::max<std::int64_t>(plan[place].get<std::int64_t>(), 1) : 1;
}

std::string fill_data(json& plan, std::int64_t others) {
  const bool given = plan.contains("cluster") && plan["cluster"].is_object() && plan["cluster"].contains("devices") &&
                     plan["cluster"]["devices"].is_number_integer();
  if (!given || others < 1) return "";  // parsing the plan will refuse it
  const std::int64_t devices = plan["cluster"]["devices"], each = ranks_per_device(plan), ranks = devices * each;
  if (ranks % others != 0 || ranks < others)
    return std::to_string(devices) + " devices " + (each > 1 ? "of " + std::to_string(each) + " ranks " : "") +
           "are no multiple of tensor x pipeline x context = " + std::to_string(others);
  plan["parallel"]["data"] = ranks / others;
  return "";
}

std::string fill_devices(json& plan, std::int64_t world) {
  const std::int64_t each = ranks_per_device(plan);
  if (world % each != 0)
    return "tensor x pipeline x context x data = " + std::to_string(world) + " is no multiple of the " + std::to_string(each) + " ranks of a device";
  plan["cluster"]["devices"] = world / each;
  return "";
}

}  // namespace

std::string present_name(const std::string& field) {
  const PlanField* known = find_field(field);
  return known == nullptr ? field : known->path;
}

void set_field(json& plan, const std::string& said, const json& value) {
  const std::string field = present_name(said);
  for (const char* group : {"model", "parallel", "training", "cluster"})
    if (field == group && (value.is_number() || value.is_boolean() || value.is_array()))
      throw ConfigError(Problem{"", field, value.dump(), "is a group of fields", "set one of them, such as " + field + ".FIELD=VALUE"});
  json* place = &plan;
  const std::vector<std::string> parts = parts_of(field);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    if (value.is_null() && !place->contains(parts[i])) return;
    json& next = (*place)[parts[i]];
    if (!next.is_object()) next = json::object();
    place = &next;
  }
  if (place->is_object()) erase_field(*place, field);
  if (!value.is_null()) (*place)[parts.back()] = value;
}

Problem unknown_field(const std::string& field) {
  static const json schema = json::parse(plan_json_schema());
  const json* at = properties(schema);
  std::string before;
  for (const std::string& part : parts_of(present_name(field))) {
    if (at == nullptr) return {"", "", '"' + field + '"', before + " has no fields of its own", ""};
    if (!at->contains(part)) {
      std::vector<std::string> names;
      for (const auto& [name, unused] : at->items()) names.push_back(name);
      const std::string meant = before.empty() ? nearest_or_below(part, names) : nearest(part, names);
      return {"", "", '"' + field + '"', "is no field of a plan",
              meant.empty() ? "there are " + list_text(names)
                            : "did you mean \"" + before + (before.empty() ? "" : ".") + meant + "\"?"};
    }
    before += (before.empty() ? "" : ".") + part;
    at = properties((*at)[part]);
  }
  return {};
}

std::string fill_field(json& plan, const std::string& field) {
  const std::int64_t others = degree(plan, "tensor") * degree(plan, "pipeline") * degree(plan, "context");
  return field == "parallel.data" ? fill_data(plan, others) : fill_devices(plan, others * degree(plan, "data"));
}

std::int64_t devices_by_degrees(json plan, const std::string& file) {
  const json::json_pointer devices("/cluster/devices"), data("/parallel/data");
  if (plan.contains(devices) || !plan.contains(data) || !plan[data].is_number_integer()) return 0;
  plan["training"] = {{"seq_length", 1}, {"micro_batch_size", 1}, {"global_batch_size", 1}};
  return derived_devices(read_draft(plan.dump(), file, PlanContext{generation_of}).plan);
}

}  // namespace tandem::study
