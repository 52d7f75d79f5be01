#include "models/arguments/exported_options.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/arguments/imported_plan.hpp"
#include "models/arguments/table_facts.hpp"
#include "models/base/error.hpp"
#include "models/fields/plan_fields.hpp"

namespace tandem::arguments {
namespace {

using nlohmann::json;

/// The plan's fields, and what follows from them.
json facts_of(const Plan& plan, std::int64_t devices_per_node) {
  json out = json::parse(to_json(plan));
  out["derived"] = {{"layers_per_stage", plan.layers_per_stage()}, {"ranks", plan.world_size()},
                    {"ranks_per_node", devices_per_node * plan.cluster.ranks_per_device}};
  return out;
}

/// A value as a shell's words.
std::string words_of(const json& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const bool plain = text.find_first_of(" \t\n\"'\\$`*?[](){}<>|&;#~!") == std::string::npos;
    return plain && !text.empty() ? text : "'" + text + "'";
  }
  constexpr double kExact = 1e15;
  if (value.is_number_float() && std::abs(value.get<double>()) < kExact && std::trunc(value.get<double>()) == value.get<double>())
    return std::to_string(value.get<std::int64_t>());  // some options refuse 10000.0
  if (!value.is_array()) return value.dump();
  std::string out;
  for (const json& v : value) out += (out.empty() ? "" : " ") + words_of(v);
  return out;
}

std::vector<ExportedOptions::Option> evaluated(const json& rows, TableFacts& facts) {
  std::vector<ExportedOptions::Option> out;
  for (const json& row : rows) {
    const json value = facts.value(row.at(1).get<std::string>()).value();
    if (value.is_null() || value == false) continue;
    out.emplace_back(row.at(0).get<std::string>(), value == true ? "" : words_of(value));
  }
  return out;
}

/// Fields and values of a completed plan, dotted.
void collect(const json& object, const std::string& prefix, std::vector<std::pair<std::string, json>>& out) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) collect(value, prefix + key + ".", out);
    else out.emplace_back(prefix + key, value);
  }
}

/// Whether arguments of a program have nothing to do with a field: words for people, the stack, the cluster but for its devices. A
/// family only sets defaults.
bool beside(const std::string& path) {
  const auto ends = [&](const std::string& key) { return path == key || path.ends_with("." + key); };
  return ends("name") || ends("notes") || path.starts_with("stack.") || path == "model.family" ||
         (path.starts_with("cluster.") && path != "cluster.devices");
}

/// Writes what can be said in two ways in one: shared experts of one width are one of all their widths together, and stages
/// that are split by themselves have so many layers.
void in_one_way(Plan& plan) {
  plan.parallel.pipeline_split = plan.layers_per_stage();
  plan.model.moe.shared_ffn_hidden_size = plan.model.moe.shared_ffn();
  plan.model.moe.num_shared_experts = plan.model.moe.num_shared_experts > 0 ? 1 : 0;
}

}  // namespace

std::string ExportedOptions::command() const {
  const auto line = [](const Option& o) { return o.first + (o.second.empty() ? "" : " " + o.second); };
  std::string out = "torchrun";
  for (const Option& o : launcher) out += " " + line(o);
  out += " " + program;
  for (const Option& o : options) out += " \\\n  " + line(o);
  return out + "\n";
}

ExportedOptions export_plan(const Plan& plan, const Table& table, std::int64_t devices_per_node) {
  const json config = facts_of(plan, devices_per_node);
  const json exported = table.document->at("export");
  TableFacts facts(config, "", exported, plan.file, 0);
  ExportedOptions out;
  out.launcher = evaluated(exported.at("launcher"), facts);
  out.options = evaluated(exported.at("options"), facts);
  out.program = exported.at("program").get<std::string>();
  return out;
}

std::vector<std::string> unsaid_fields(const Plan& plan, const ExportedOptions& options, const Table& table,
                                       const PlanContext& context) {
  const ImportedPlan read = import_arguments(options.command(), plan.file, table, {plan.cluster.preset, 0});
  nlohmann::ordered_json document = *read.document;
  document["stack"] = {{"name", table.stack}, {"as_of", text_of(plan.stack.as_of)}, {"rules", "note"}};
  Plan again = parse_plan(document.dump(), plan.file, context), here = plan;
  in_one_way(again), in_one_way(here);
  std::vector<std::pair<std::string, json>> ours, theirs;
  collect(json::parse(to_json(here)), "", ours);
  collect(json::parse(to_json(again)), "", theirs);
  json other = json::object();
  for (const auto& [path, value] : theirs) other[path] = value;
  std::vector<std::string> out;
  for (const auto& [path, value] : ours) {
    const json there = other.value(path, json());
    other.erase(path);
    if (!beside(path) && there != value) out.push_back(path + ": " + value.dump() + ", read back as " + there.dump());
  }
  for (const auto& [path, value] : other.items())
    if (!beside(path)) out.push_back(path + ": left out, read back as " + value.dump());
  return out;
}

}  // namespace tandem::arguments
