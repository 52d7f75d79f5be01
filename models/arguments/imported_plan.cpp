#include "models/arguments/imported_plan.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "models/arguments/configuration.hpp"
#include "models/arguments/interpolation.hpp"
#include "models/arguments/required_options.hpp"
#include "models/arguments/run_command.hpp"
#include "models/arguments/switches.hpp"
#include "models/arguments/table_facts.hpp"
#include "models/arguments/unread_arguments.hpp"
#include "models/arguments/value_kinds.hpp"
#include "models/base/dotted_path.hpp"
#include "models/base/files.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/fields/plan_fields.hpp"

namespace tandem::arguments {
namespace {

using huggingface::FieldValue;
using huggingface::FieldValues;
using nlohmann::json;
using nlohmann::ordered_json;

/// Arguments whose value is null say nothing.
FieldValues given(FieldValues fields) {
  std::erase_if(fields, [](const FieldValue& f) { return f.text == "null" || f.by_default; });
  return fields;
}

/// The preset of the model that the arguments name; empty if they name none that has a preset.
std::string named_model(const Table& table, const Arguments& arguments, const std::string& file) {
  TableFacts facts(*arguments.values, "", *table.document, file, 0);
  if (!facts.has("preset")) return "";
  const huggingface::Traced name = facts.value("preset");
  return name.value().is_string() ? name.value().get<std::string>() : "";
}

/// The model that the file names: a preset, or a path that is relative to the file.
std::string found_model(const std::string& name, const std::string& file) {
  if (name.empty() || !is_preset_path(name)) return name;
  const std::string path = beside(name, file);
  if (file_state(path).kind != FileKind::absent) return path;
  throw ConfigError(Problem{file, "model", '"' + shortened(name) + '"', "names a configuration that is not at " + path,
                            "give the model with --model: a preset, or the path of a config.json"});
}

/// The first of these fields that a preset or a config.json has; null if the file says none.
json model_field(const std::string& model, std::initializer_list<const char*> keys) {
  const std::string path = is_preset_path(model) ? model : find_preset("models/presets", model);
  if (model.empty() || path.empty() || file_state(path).kind != FileKind::regular) return nullptr;
  json document = read_json(path);
  for (const char* part : {"model", "text_config"})
    if (document.is_object() && document.contains(part) && document[part].is_object()) document = json(document[part]);
  for (const char* key : keys)
    if (document.is_object() && document.contains(key)) return document[key];
  return nullptr;
}

Problem without_model(TableFacts& facts, const std::string& file) {
  if (!facts.has("preset"))
    return {"--model", "", "", "is missing: " + file + " does not say the model", "name a preset, or the path of a config.json"};
  std::vector<std::string> names, values;
  for (const FieldValue& v : facts.value("preset").from) names.push_back(v.field), values.push_back(v.text);
  return {file, list_text(names), list_text(values), "has no preset here", "name its model: --model with a preset, or the path of a config.json"};
}

/// Fields that the table requires and that say nothing; those of the model may be missing if the user names one.
void require_fields(const Table& table, TableFacts& facts, const std::string& file, const PlanNeeds& needs) {
  std::vector<Problem> problems;
  for (const json& row : table.document->value("required", json::array())) {
    if (row.value("of_model", false) && !needs.model.empty()) continue;
    if (!facts.value(row.at("value").get<std::string>()).value().is_null()) continue;
    const std::string name = row.at("field").get<std::string>();
    problems.push_back({file, name, "", row.value("reason", "is missing"), row.value("remedy", "give it: tandem import --set " + name + "=N")});
  }
  if (!problems.empty()) throw ConfigError(problems);
}

/// What the table needs that is not there: options, or the model of a file.
void require_model(const Table& table, TableFacts& facts, const std::string& file, const PlanNeeds& needs) {
  const json& plan = table.document->at("plan");
  if (needs.model.empty() && !table.says_model()) throw ConfigError(without_model(facts, file));
  if (table.reads_file()) {
    const json length = plan.value("training.seq_length", json());
    if (needs.sequence == 0 && (length.is_null() || facts.value(length.get<std::string>()).value().is_null()))
      throw ConfigError(Problem{"--seq-length", "", "", "is missing: " + file + " does not say it", "give the tokens of a training sequence"});
    require_fields(table, facts, file, needs);
  } else {
    require_options(table, facts, file);
  }
}

/// Refuses a value that a field of the file cannot have: a word for a switch, a field inside a value.
void require_settable(const std::string& name, const json& value, const json& values, const Table& table) {
  const json usual = table.document->at("defaults").value(name, json());
  if (usual.is_boolean() && !value.is_boolean())
    throw ConfigError(Problem{"--set", name, value_text(value), "is neither true nor false", "write " + name + "=true or " + name + "=false"});
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    const json* part = find_dotted(values, name.substr(0, dot));
    if (part != nullptr && !part->is_object())
      throw ConfigError(Problem{"--set", name, "", name.substr(0, dot) + " is a value, not a section", "name a field of the file"});
  }
}

/// Gives fields of a file other values. They are then no longer left to the program.
void set_fields(const PlanNeeds& needs, const Table& table, json& values, std::vector<std::string>& automatic) {
  for (const auto& [name, value] : needs.set) {
    require_settable(name, value, values, table);
    ordered_json changed = values;
    put_dotted(changed, name, value);
    values = json(changed);
    std::erase(automatic, name);
  }
}

constexpr const char* kElsewhere = "is filled in elsewhere, and nothing in this file says it";

/// What keeps the field `name` from being read: it or a group around it is open, or is no group.
std::optional<Problem> unsaid(const json& values, const std::string& name, const std::string& file) {
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    const json* group = find_dotted(values, name.substr(0, dot));
    if (group == nullptr || group->is_null() || group->is_structured()) continue;
    return Problem{file, name.substr(0, dot), value_text(*group), is_open(*group) ? kElsewhere : "is no group of fields",
                   "write its fields, or leave it out"};
  }
  const json* value = find_dotted(values, name);
  if (value == nullptr || !is_open(*value)) return std::nullopt;
  return Problem{file, name, value_text(*value), kElsewhere, "give its value: tandem import --set " + name + "=VALUE"};
}

/// Writes a file as other files of its framework are: fields of a section within a section stand in the outer one, and the name of
/// a function is the field of a group.
void in_one_form(const Table& table, json& values) {
  const json within = table.document->value("within", json::object());
  for (const auto& [outer, inner_name] : within.items()) {
    const auto name = inner_name.get<std::string>();
    if (!values.contains(outer) || !values[outer].is_object() || !values[outer].contains(name)) continue;
    json& section = values[outer];
    const json inner = section[name];
    if (!inner.is_object()) continue;
    section.erase(name);
    for (const auto& [field, value] : inner.items())
      if (!section.contains(field) || section[field].is_null()) section[field] = value;
  }
  const json named = table.document->value("named", json::object());
  for (const auto& [path, field] : named.items()) {
    const json* value = find_dotted(values, path);
    if (value == nullptr || !value->is_string()) continue;
    ordered_json changed = values;
    put_dotted(changed, path, ordered_json{{field.get<std::string>(), value->get<std::string>()}});
    values = json(changed);
  }
}

/// Fills in what other fields of the file say, and refuses what stays open although the plan needs it.
void fill_in(const Table& table, json& values, const std::string& file) {
  if (!table.reads_file()) return;
  in_one_form(table, values);
  resolve_interpolations(values, table.document->value("mounted", ""));
  std::vector<Problem> problems;
  std::set<std::string> told;
  for (const std::string& name : read_somewhere(table))
    if (auto problem = unsaid(values, name, file))
      if (told.insert(problem->field).second) problems.push_back(std::move(*problem));
  if (!problems.empty()) throw ConfigError(problems);
}

/// Refuses a precision that is left to the program, where the rest of the file does not say one.
void require_said(const Table& table, TableFacts& facts, const std::vector<std::string>& automatic, const std::string& file) {
  if (!table.document->contains("automatic")) return;
  const json& rule = table.document->at("automatic");
  for (const json& field : rule.at("fields")) {
    const auto name = field.get<std::string>();
    const bool left = std::find(automatic.begin(), automatic.end(), name) != automatic.end();
    if (!left || facts.truth(rule.at("when_not").get<std::string>())) continue;
    throw ConfigError(Problem{file, name, "\"auto\"", "is left to the program that reads the file",
                              "give " + rule.at("give").get<std::string>() + ": tandem import --set " + name + "=true"});
  }
}

/// Throws InfeasibleError if the text names a program that the table does not know.
void require_program(const Arguments& arguments, const Table& table, const std::string& file) {
  if (table.reads_file()) return;
  const json programs = table.document->value("programs", json::array());
  if (arguments.program.empty() || std::find(programs.begin(), programs.end(), json(arguments.program)) != programs.end()) return;
  throw InfeasibleError(Problem{file, "program", arguments.program, "not implemented: arguments of other programs than " +
                                list_text(programs.get<std::vector<std::string>>()), "write the plan with the tables of docs/coming-from.md"});
}

std::string base_name(const std::string& file) {
  const std::string name = file.substr(file.rfind('/') + 1);
  return name.substr(0, name.rfind('.'));
}

std::string number_of(const Month& month) { return std::to_string(month.year * 100 + month.month); }

/// The table with facts that are known by now: the month of the framework's code as a number, the program, whether it printed the
/// arguments, the files of options that were read, the fields that are left to the program.
json with_circumstances(const Table& table, const Month& as_of, const Arguments& arguments,
                        const std::vector<std::string>& configured, const std::vector<std::string>& automatic) {
  json out = *table.document;
  out["facts"]["program"] = "'" + arguments.program + "'";
  out["facts"]["printed"] = arguments.printed ? "true" : "false";
  out["facts"]["as_of"] = number_of(as_of);
  out["facts"]["configured"] = configured.empty() ? "false" : "true";
  out["facts"]["configured_as"] = configured;
  out["facts"]["automatic"] = automatic;
  return out;
}

/// The stack that the plan gets: the one asked for, else the first that the file's fields choose, else the table's. An option that the
/// framework has no more dates it.
StackChoice stack_of(const Arguments& arguments, const Table& table, const json& document, const std::string& file,
                     const PlanNeeds& needs) {
  if (needs.stack) return *needs.stack;
  TableFacts facts(*arguments.values, "", document, file, 0);
  for (const json& entry : table.document->value("stacks", json::array()))
    if (facts.truth(entry.at("when").get<std::string>())) return {entry.at("stack").get<std::string>(), std::nullopt};
  for (const json& entry : table.document->value("dated", json::array()))
    if (facts.truth(entry.at("when").get<std::string>())) return {table.stack, parse_month(entry.at("as_of").get<std::string>())};
  return {table.stack, std::nullopt};
}

ordered_json stack_document(const StackChoice& stack) {
  if (!stack.as_of) return stack.name;
  return {{"name", stack.name}, {"as_of", text_of(*stack.as_of)}};
}

void add_document(ImportedPlan& out, const PlanNeeds& needs, std::int64_t devices) {
  ordered_json document = {{"name", base_name(out.file)}, {"notes", "Read from " + out.file + "."}, {"stack", stack_document(out.stack)}};
  if (!needs.model.empty()) document["model"] = {{"preset", needs.model}};
  if (needs.sequence > 0) std::erase_if(out.fields, [](const huggingface::ImportedField& f) { return f.path == "training.seq_length"; });
  for (const huggingface::ImportedField& f : out.fields) put_dotted(document, f.path, f.value.value());
  if (needs.sequence > 0) put_dotted(document, "training.seq_length", needs.sequence);
  document["cluster"] = {{"preset", needs.cluster}, {"devices", devices}};
  out.document = std::make_shared<const ordered_json>(std::move(document));
}

void add_fields(const Table& table, TableFacts& facts, ImportedPlan& out) {
  for (const PlanField& f : plan_fields()) {
    const auto expression = table.document->at("plan").find(f.path);
    if (expression == table.document->at("plan").end()) continue;
    huggingface::Traced value = facts.value(expression->get<std::string>());
    if (!value.value().is_null()) out.fields.push_back({f.path, std::move(value)});
  }
}

void add_features(const Table& table, TableFacts& facts, ImportedPlan& out) {
  for (const auto& [id, feature] : table.document->at("features").items()) {
    const huggingface::Traced there = facts.value(feature.at("when").get<std::string>());
    if (there.value() != true) continue;
    out.features.push_back({feature.at("name").get<std::string>(), given(there.from), feature.value("instead", "left out"),
                            !feature.value("told", false), 0});
  }
}

}  // namespace

ImportedPlan import_arguments(const std::string& text, const std::string& file, const Table& table, const PlanNeeds& wanted) {
  std::vector<std::string> automatic;
  Arguments arguments = !table.reads_file() ? read_arguments(text, named_by(table), file)
                        : is_run(text, file) ? read_run(text, file, table, automatic)
                                             : read_document(text, file, automatic);
  if (table.reads_several()) join_files(arguments, file, wanted.configuration, automatic);
  set_fields(wanted, table, *arguments.values, automatic);
  add_groups(*arguments.values, table, file);
  fill_in(table, *arguments.values, file);
  require_program(arguments, table, file);
  require_expanded(table, arguments, file, {wanted.set, !wanted.model.empty()});
  PlanNeeds needs = wanted;
  if (needs.devices > 0) (*arguments.values)["world_size"] = needs.devices;
  if (needs.model.empty()) needs.model = found_model(named_model(table, arguments, file), file);
  std::vector<std::string> placed = automatic, configured;  // of files that options name: `ds.NAME`
  for (const AddedFile& added : add_configurations(arguments, table, file, {needs.configuration, needs.approximate})) {
    configured.push_back(added.as);
    automatic.insert(automatic.end(), added.automatic.begin(), added.automatic.end());
    for (const std::string& name : added.automatic) placed.push_back(added.as + "." + name);
  }
  if (table.reads_file() && arguments.launched && !arguments.launched->empty())
    (*arguments.values)["launched"].merge_patch(*arguments.launched);
  read_switches(table, *arguments.values, file);
  if (!arguments.printed)  // what a program printed it has taken
    require_kinds(table, *arguments.values, placed, file);
  json document = with_circumstances(table, needs.newest, arguments, configured, automatic);
  const StackChoice stack = stack_of(arguments, table, document, file, needs);
  document["facts"]["as_of"] = number_of(stack.as_of.value_or(needs.newest));
  const json layers = needs.layers > 0 ? json(needs.layers) : model_field(needs.model, {"num_layers", "num_hidden_layers", "n_layer"});
  document["facts"]["preset_layers"] = layers;
  document["facts"]["preset_hidden"] = model_field(needs.model, {"hidden_size", "n_embd", "d_model"});
  document["facts"]["preset_vocabulary"] = model_field(needs.model, {"vocab_size"});
  ImportedPlan out{file, stack, stack.as_of.value_or(needs.newest), table.sources(), arguments.printed, {}, {}, {}, {}, {}, {}, {}};
  TableFacts facts(*arguments.values, "", document, file, 0);
  const huggingface::Traced devices = facts.value("devices");
  if (!devices.value().is_number_integer())
    throw ConfigError(Problem{file, "world_size", "", "is missing: nothing says on how many devices the program runs", "give --devices N"});
  require_model(table, facts, file, needs);
  require_said(table, facts, automatic, file);
  if (facts.has("preset")) facts.value("preset");  // read, so not told as unread
  add_fields(table, facts, out);
  add_features(table, facts, out);
  sort_unread(table, facts, arguments, out);
  out.automatic = std::move(automatic);
  add_document(out, needs, devices.value().get<std::int64_t>());
  return out;
}

std::vector<Problem> refusals(const ImportedPlan& plan) {
  std::vector<Problem> out;
  for (const huggingface::MissingFeature& f : plan.features) {
    if (!f.refused) continue;
    std::vector<std::string> names, values;
    for (const FieldValue& v : f.fields) names.push_back(v.field), values.push_back(shortened(v.text, 40));
    out.push_back({plan.file, list_text(names), list_text(values), "not implemented: " + f.name,
                   "`tandem import --approximate` says instead: " + f.instead});
  }
  return out;
}

}  // namespace tandem::arguments
