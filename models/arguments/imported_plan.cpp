#include "models/arguments/imported_plan.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/arguments/table_facts.hpp"
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

/// "log_*" covers every name that begins so, "*_size" every one that ends so.
bool covers(const std::string& pattern, const std::string& name) {
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : pattern == name;
}

bool any_covers(const json& patterns, const std::string& name) {
  for (const auto& [pattern, why] : patterns.items())
    if (covers(pattern, name)) return true;
  return false;
}

/// Whether a printed argument says nothing: it has its default, or is off.
bool says_nothing(const Table& table, const std::string& name, const json& value) {
  return value.is_null() || value == false || (table.has(name) && table.document->at("defaults")[name] == value);
}

void sort_unread(const Table& table, const TableFacts& facts, const Arguments& arguments, ImportedPlan& out) {
  for (const std::string& name : facts.unread()) {
    if (arguments.values->contains(name) && says_nothing(table, name, (*arguments.values)[name])) continue;
    if (arguments.printed && any_covers(table.document->at("printed"), name)) continue;
    if (any_covers(table.document->at("ignored"), name)) out.ignored.push_back(name);
    else if (table.has(name) || arguments.printed) out.unsaid.push_back(name);
    else {
      const std::string meant = table.nearest_option(name);
      out.unknown.push_back(name + (meant.empty() ? "" : " (the nearest is " + meant + ")"));
    }
  }
}

/// Throws InfeasibleError if the text names a program that the table does not know.
void require_program(const Arguments& arguments, const Table& table, const std::string& file) {
  const json& programs = table.document->at("programs");
  if (arguments.program.empty() || std::find(programs.begin(), programs.end(), json(arguments.program)) != programs.end()) return;
  throw InfeasibleError(Problem{file, "program", arguments.program, "not implemented: arguments of other programs than " +
                                list_text(programs.get<std::vector<std::string>>()), "write the plan with the tables of docs/coming-from.md"});
}

void put(ordered_json& object, std::string_view path, const json& value) {
  const std::size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  if (dot == std::string_view::npos) object[key] = value;
  else put(object[key], path.substr(dot + 1), value);
}

std::string base_name(const std::string& file) {
  const std::string name = file.substr(file.rfind('/') + 1);
  return name.substr(0, name.rfind('.'));
}

void add_document(ImportedPlan& out, const PlanNeeds& needs, std::int64_t devices) {
  ordered_json document = {{"name", base_name(out.file)}, {"notes", "Read from " + out.file + "."}, {"stack", out.stack}};
  for (const huggingface::ImportedField& f : out.fields) put(document, f.path, f.value.value());
  document["cluster"] = {{"preset", needs.cluster}, {"devices", devices}};
  out.document = std::make_shared<const ordered_json>(std::move(document));
}

}  // namespace

ImportedPlan import_arguments(const std::string& text, const std::string& file, const Table& table, const PlanNeeds& needs) {
  Arguments arguments = read_arguments(text, [&](const std::string& option) { return table.argument(option); }, file);
  require_program(arguments, table, file);
  if (needs.devices > 0) (*arguments.values)["world_size"] = needs.devices;
  ImportedPlan out{file, table.stack, table.sources(), arguments.printed, {}, {}, {}, {}, {}, {}};
  TableFacts facts(*arguments.values, "", *table.document, file, 0);
  const huggingface::Traced devices = facts.value("devices");
  if (!devices.value().is_number_integer())
    throw ConfigError(Problem{file, "world_size", "", "is missing: nothing says on how many devices the program runs", "give --devices N"});
  if (facts.value(table.document->at("plan").at("model.vocab_size").get<std::string>()).value().is_null())
    throw ConfigError(Problem{file, "vocab_size", "", "is missing: the tokenizer decides it, and Tandem reads none",
                              "add --vocab-size N to the options"});
  for (const PlanField& f : plan_fields()) {
    const auto expression = table.document->at("plan").find(f.path);
    if (expression == table.document->at("plan").end()) continue;
    huggingface::Traced value = facts.value(expression->get<std::string>());
    if (!value.value().is_null()) out.fields.push_back({f.path, std::move(value)});
  }
  for (const auto& [id, feature] : table.document->at("features").items()) {
    const huggingface::Traced there = facts.value(feature.at("when").get<std::string>());
    if (there.value() != true) continue;
    out.features.push_back({feature.at("name").get<std::string>(), given(there.from), feature.value("instead", "left out"),
                            !feature.value("told", false), 0});
  }
  sort_unread(table, facts, arguments, out);
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
