#include "models/arguments/exported_options.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/arguments/imported_plan.hpp"
#include "models/arguments/python_text.hpp"
#include "models/arguments/table_facts.hpp"
#include "models/arguments/toml_text.hpp"
#include "models/arguments/yaml_text.hpp"
#include "models/base/dotted_path.hpp"
#include "models/base/error.hpp"
#include "models/fields/plan_fields.hpp"

namespace tandem::arguments {
namespace {

using nlohmann::json;

/// The plan's fields, and what follows from them.
json facts_of(const Plan& plan, std::int64_t devices_per_host, std::int64_t linked) {
  json out = json::parse(to_json(plan));
  out["derived"] = {{"layers_per_stage", plan.layers_per_stage()}, {"ranks", plan.world_size()},
                    {"ranks_per_node", devices_per_host * plan.cluster.ranks_per_device},
                    {"linked_ranks", linked * plan.cluster.ranks_per_device}, {"micro_batches", plan.micro_batches()},
                    {"generation", plan.cluster.generation}, {"as_of", plan.stack.as_of.year * 100 + plan.stack.as_of.month}};
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

using Values = std::vector<std::pair<std::string, json>>;

/// Options that say something, with their values.
Values evaluated(const json& rows, TableFacts& facts) {
  Values out;
  for (const json& row : rows) {
    json value = facts.value(row.at(1).get<std::string>()).value();
    if (!value.is_null()) out.emplace_back(row.at(0).get<std::string>(), std::move(value));
  }
  return out;
}

std::vector<ExportedOptions::Option> as_options(const Values& values) {
  std::vector<ExportedOptions::Option> out;
  for (const auto& [name, value] : values)
    if (value != false) out.emplace_back(name, value == true ? "" : words_of(value));
  return out;
}

std::string command_of(const ExportedOptions& made) {
  const auto line = [](const ExportedOptions::Option& o) { return o.first + (o.second.empty() ? "" : " " + o.second); };
  std::string out;
  for (const auto& [name, value] : made.environment) out += name + "=" + value + " ";
  out += "torchrun";
  for (const ExportedOptions::Option& o : made.launcher) out += " " + line(o);
  out += " " + made.program;
  for (const ExportedOptions::Option& o : made.options) out += " \\\n  " + line(o);
  return out + "\n";
}

/// The file with `values`, and with what every file of the framework needs, whatever the plan.
std::string file_of(const Values& values, const json& always, const std::string& format) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const auto& [path, value] : values) put_dotted(out, path, value);
  for (const auto& [path, value] : always.items()) put_dotted(out, path, value);
  return format == "toml" ? toml_text(out) : format == "yaml" ? yaml_text(out) : out.dump(2) + "\n";
}

/// The program that sets `values`, with the lines of the table that hold for the plan.
std::string code_of(const Values& values, const json& code, TableFacts& facts) {
  PythonLines lines{code.at("head").get<std::vector<std::string>>(), code.at("first").get<std::vector<std::string>>(), {}};
  for (const json& row : code.at("last"))
    if (facts.truth(row.at(1).get<std::string>())) lines.last.push_back(row.at(0).get<std::string>());
  return python_text(values, lines);
}

/// Fields that the file leaves to its program; some only where an expression holds.
std::vector<std::string> elsewhere_of(const json& rows, TableFacts& facts) {
  std::vector<std::string> out;
  for (const json& row : rows)
    if (row.is_string()) out.push_back(row.get<std::string>());
    else if (facts.truth(row.at(1).get<std::string>())) out.push_back(row.at(0).get<std::string>());
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

/// Equal, but for the rounding of an option that is a quotient of two fields.
bool as_good_as(const json& a, const json& b) {
  constexpr double kRounding = 1e-14;
  if (!a.is_number_float() || !b.is_number_float()) return a == b;
  const double x = a.get<double>(), y = b.get<double>();
  return std::abs(x - y) <= kRounding * std::max(std::abs(x), std::abs(y));
}

bool any_covers(const std::vector<std::string>& patterns, const std::string& path) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return covers(p, path); });
}

/// Adds the plan's own fields where a file never says them.
void put_elsewhere(nlohmann::ordered_json& document, const Plan& plan, const std::vector<std::string>& elsewhere) {
  std::vector<std::pair<std::string, json>> fields;
  const json ours = json::parse(to_json(plan));
  collect(ours, "", fields);
  document["model"].erase("preset");
  for (const auto& [path, value] : fields)
    if (any_covers(elsewhere, path)) put_dotted(document, path, value);
}

/// A letter for each layer in place of a pattern that is repeated.
void spell_out(std::string& pattern, std::int64_t layers) {
  std::string all;
  for (std::size_t i = 0; !pattern.empty() && i < static_cast<std::size_t>(layers); ++i) all += pattern[i % pattern.size()];
  pattern = all;
}

/// Writes what can be said in two ways in one: patterns are a letter a layer, shared experts of one width are one of all their widths together, stages
/// that are split by themselves have so many layers, experts without a width are as wide as an MLP, and a decay of a run's
/// steps is one to its end.
void in_one_way(Plan& plan) {
  ModelSpec& model = plan.model;
  for (std::string* pattern : {&model.sublayers, &model.recurrence.layers, &model.window.layers, &model.indexer.layers})
    spell_out(*pattern, model.num_layers);
  if (LearningRate& rate = plan.training.optimizer.learning_rate; rate.unit == "steps" && rate.decay_over == plan.training.steps)
    rate.decay_over = 0;
  plan.parallel.pipeline_split = plan.layers_per_stage();
  plan.model.moe.shared_ffn_hidden_size = plan.model.moe.shared_ffn();
  plan.model.moe.num_shared_experts = plan.model.moe.num_shared_experts > 0 ? 1 : 0;
  if (plan.model.moe.ffn_hidden_size == plan.model.ffn_hidden_size) plan.model.moe.ffn_hidden_size = 0; // shared_ffn() reads it
}

}  // namespace

ExportedOptions export_plan(const Plan& plan, const Table& table, std::int64_t devices_per_host, std::int64_t linked) {
  const json config = facts_of(plan, devices_per_host, linked);
  const json exported = table.document->at("export");
  TableFacts facts(config, "", exported, plan.file, 0);
  ExportedOptions out;
  out.program = facts.value(exported.at("program").get<std::string>()).value().get<std::string>();
  out.elsewhere = elsewhere_of(exported.value("elsewhere", json::array()), facts);
  const Values values = evaluated(exported.at("options"), facts);
  if (table.reads_file()) {
    for (const auto& [path, value] : values) out.options.emplace_back(path, value.dump());
    out.read_back = file_of(values, exported.value("always", json::object()), table.written_as());
    out.text = exported.contains("code") ? code_of(values, exported["code"], facts) : out.read_back;
  } else {
    out.environment = as_options(evaluated(exported.value("environment", json::array()), facts));
    out.launcher = as_options(evaluated(exported.at("launcher"), facts));
    out.options = as_options(values);
    out.text = out.read_back = command_of(out);
  }
  return out;
}

std::vector<std::string> unsaid_fields(const Plan& plan, const ExportedOptions& options, const Table& table,
                                       const PlanContext& context) {
  const bool whole = !table.reads_file();
  const std::string file = table.written_as() == "yaml" ? plan.file + ".yaml" : plan.file;
  const PlanNeeds needs{plan.cluster.preset, whole ? 0 : plan.cluster.devices, whole ? "" : "model", plan.training.seq_length,
                        plan.stack.as_of, StackChoice{table.stack, plan.stack.as_of}, "", false, {}, plan.model.num_layers};
  nlohmann::ordered_json document = *import_arguments(options.read_back, file, table, needs).document;
  if (!whole) put_elsewhere(document, plan, options.elsewhere);
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
    if (beside(path) || any_covers(options.elsewhere, path) || as_good_as(there, value)) continue;
    out.push_back(path + ": " + value.dump() + ", read back as " + there.dump());
  }
  for (const auto& [path, value] : other.items())
    if (!beside(path) && !any_covers(options.elsewhere, path)) out.push_back(path + ": left out, read back as " + value.dump());
  return out;
}

}  // namespace tandem::arguments
