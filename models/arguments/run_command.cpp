#include "models/arguments/run_command.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/arguments/command_line.hpp"
#include "models/arguments/configuration.hpp"
#include "models/arguments/launcher.hpp"
#include "models/base/dotted_path.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"

namespace tandem::arguments {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// Options of programs that name the file with their fields.
constexpr const char* kNaming[] = {"config", "config_file", "job.config_file"};

/// By framework: what its table says of commands.
std::map<std::string, json> commands_of_tables() {
  std::map<std::string, json> out;
  for (const std::string& framework : known_frameworks()) {
    json document = read_json(find_preset(kFolder, framework));
    if (document.contains("command")) out.emplace(framework, std::move(document["command"]));
  }
  return out;
}

bool holds(const json& list, const std::string& name) { return std::find(list.begin(), list.end(), json(name)) != list.end(); }

std::vector<std::string> programs_of(const std::map<std::string, json>& commands) {
  std::vector<std::string> out;
  for (const auto& [framework, command] : commands)
    for (const json& program : command.value("programs", json::array())) out.push_back(program.get<std::string>());
  return out;
}

Arguments command_of(const std::string& text, const std::string& file, const std::vector<std::string>& programs) {
  const auto plain = [](const std::string& option) {
    std::string name = option;
    std::replace(name.begin(), name.end(), '-', '_');
    return ArgumentName{name, false, false};
  };
  return command_arguments(text, plain, file, programs);
}

bool names_fields(const std::string& word) {
  return is_yaml(word) || word.ends_with(".json") || word.ends_with(".toml");
}

/// The file of fields that a command names; empty if it names none.
std::string named_file(const Arguments& command) {
  const json& values = *command.values;
  const auto said = [&](const char* name) {
    const bool there = values.contains(name) && values[name].is_string() && !command.launcher.contains(name);
    return there ? values[name].get<std::string>() : "";
  };
  for (const char* name : kNaming)
    if (const std::string path = said(name); !path.empty()) return path;
  if (const std::string name = said("config_name"); !name.empty()) {
    const std::string folder = said("config_path");
    return (folder.empty() ? "" : folder + "/") + name + (names_fields(name) ? "" : ".yaml");
  }
  const auto word = std::find_if(command.words.begin(), command.words.end(), names_fields);
  return word == command.words.end() ? "" : *word;
}

/// What a text of a command line stands for in a file: a group of fields may be JSON.
json field_value(const json& said) {
  if (!said.is_string() || !said.get_ref<const std::string&>().starts_with('{')) return said;
  json group = json::parse(said.get_ref<const std::string&>(), nullptr, false);
  return group.is_discarded() ? said : group;
}

/// "trainer.devices=8" and Hydra's "+model.x=1" as a field and its value.
std::optional<std::pair<std::string, json>> pair_in(const std::string& word) {
  const std::size_t begin = std::min(word.find_first_not_of('+'), word.size()), equal = word.find('=');
  if (equal == std::string::npos || equal <= begin) return std::nullopt;
  const std::string name = word.substr(begin, equal - begin);
  const auto in_name = [](char c) { return c == '_' || c == '.' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
  if (!std::all_of(name.begin(), name.end(), in_name)) return std::nullopt;
  return std::pair(name, argument_value(word.substr(equal + 1)));
}

/// The fields of a command: those of its file, in whose place its options and words come.
ordered_json fields_of(const Arguments& command, const std::string& file, std::vector<std::string>& automatic) {
  ordered_json fields = ordered_json::object();
  if (const std::string said = named_file(command); !said.empty()) {
    const std::string path = required_beside(said, file, "arguments");
    fields = *read_document(read_text(path), path, automatic).values;
  }
  const auto set = [&](const std::string& name, const json& value) {
    put_dotted(fields, name, value);
    std::erase(automatic, name);
  };
  for (const auto& [name, value] : command.values->items()) {
    const bool naming = holds(kNaming, name) || name == "config_name" || name == "config_path";
    if (name != "env" && !naming && !command.launcher.contains(name)) set(name, field_value(value));
  }
  for (const std::string& word : command.words)
    if (const auto pair = pair_in(word)) set(pair->first, field_value(pair->second));
  return fields;
}

/// What `accelerate launch` was given, as a file of Accelerate has it.
json accelerate_fields(const Arguments& command) {
  json out = json::object();
  if (std::find(command.launchers.begin(), command.launchers.end(), "accelerate") == command.launchers.end()) return out;
  constexpr std::pair<const char*, const char*> kTypes[] = {{"multi_gpu", "MULTI_GPU"}, {"use_fsdp", "FSDP"}, {"use_deepspeed", "DEEPSPEED"}};
  const Table table = read_table("accelerate");
  ordered_json fields = ordered_json::object();
  for (const auto& [option, argument] : table.options->items())
    if (const std::string name = option.substr(option.rfind('.') + 1); command.launched->contains(name))
      put_dotted(fields, option, (*command.launched)[name]);
  for (const auto& [name, type] : kTypes)
    if (command.launched->value(name, json()) == true) fields["distributed_type"] = type;
  if (command.launched->contains("cpu")) fields["use_cpu"] = (*command.launched)["cpu"];
  return json(fields);
}

/// The framework whose own words choose it. `scripts`: by the program's name, else by options.
std::optional<std::string> chosen(const std::map<std::string, json>& commands, const std::string& program, const json& fields,
                                  bool scripts) {
  const auto said = [&](const json& name) { return fields.contains(name.get<std::string>()); };
  for (const auto& [framework, command] : commands) {
    const json by = command.value("chosen_by", json::array()), without = command.value("not_with", json::array());
    const bool meant = scripts ? holds(command.value("scripts", json::array()), program) : std::any_of(by.begin(), by.end(), said);
    if (meant && std::none_of(without.begin(), without.end(), said)) return framework;
  }
  return std::nullopt;
}

/// Takes the processes that a program itself starts off its fields.
void take_processes(const Table& table, ordered_json& fields, Arguments& command) {
  for (const char* name : {"nproc_per_node", "nnodes", "node_rank", "master_addr", "master_port", "rdzv_endpoint", "rdzv_backend", "rdzv_id"}) {
    if (!fields.contains(name) || table.has(name)) continue;
    (*command.launched)[name] = fields[name].is_array() && !fields[name].empty() ? fields[name][0] : fields[name];
    fields.erase(name);
  }
}

}  // namespace

bool is_run(const std::string& text, const std::string& file) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string::npos && text[begin] != '{' && text[begin] != '[' && !names_fields(file);
}

bool looks_like_run(const std::string& text, const std::string& file) {
  if (!is_run(text, file) || std::count(text.begin(), text.end(), '\n') > 200) return false;
  try {
    const std::vector<std::string> programs = programs_of(commands_of_tables());
    const Arguments command = command_of(text, file, programs);
    const bool known = std::find(programs.begin(), programs.end(), command.program) != programs.end();
    return !command.program.empty() && !command.words.empty() && (known || !named_file(command).empty());
  } catch (const ConfigError&) {
    return false;  // quotes of another kind of text
  }
}

std::optional<Table> table_of_run(const std::string& text, const std::string& file) {
  const std::map<std::string, json> commands = commands_of_tables();
  const Arguments command = command_of(text, file, programs_of(commands));
  for (const auto& [framework, there] : commands)
    if (holds(there.value("programs", json::array()), command.program)) return read_table(framework);
  std::vector<std::string> automatic;
  const json fields = json(fields_of(command, file, automatic));
  if (!named_file(command).empty())
    for (const std::string& framework : known_frameworks())
      if (Table table = read_table(framework); table.recognises(fields)) return table;
  for (const bool scripts : {true, false})
    if (const auto framework = chosen(commands, command.program, fields, scripts)) return read_table(*framework);
  return std::nullopt;
}

Arguments read_run(const std::string& text, const std::string& file, const Table& table, std::vector<std::string>& automatic) {
  Arguments command = command_of(text, file, programs_of(commands_of_tables()));
  ordered_json fields = fields_of(command, file, automatic);
  for (const auto& [name, value] : command.values->items())
    if (name.starts_with("no_") && !table.has(name) && table.has(name.substr(3)) && fields.contains(name)) {
      fields.erase(name);
      fields[name.substr(3)] = value != true;
    }
  const json own = table.document->value("command", json::object());
  const bool known = holds(own.value("programs", json::array()), command.program);
  if (known) take_processes(table, fields, command);
  const auto processes = process_count_of(command, own.value("each_visible", false), file);
  Arguments out{std::make_shared<json>(fields), command.program, false};
  if (processes) (*out.values)["world_size"] = *processes;
  out.launched = std::make_shared<json>(accelerate_fields(command));
  out.own_script = !known;
  for (const auto& [name, said] : command.open)
    if (!command.launcher.contains(name)) out.open[name] = said;
  if (command.launcher.contains("config_file") && table.has("accelerate_config"))
    (*out.values)["accelerate_config"] = (*command.launched)["config_file"];
  return out;
}

void require_expanded(const Table& table, const Arguments& arguments, const std::string& file, const GivenFields& given) {
  const std::string preset = table.document->at("facts").value("preset", "");
  std::vector<Problem> problems;
  for (const auto& [name, said] : arguments.open) {
    const auto covered = [&](const auto& item) { return covers(item.key(), name); };
    const json ignored = table.document->at("ignored");
    const auto is_it = [&](const auto& field) { return field.first == name; };
    bool without_effect = std::any_of(given.set.begin(), given.set.end(), is_it) ||
                          (given.model && preset.find("$" + name) != std::string::npos) ||
                          (arguments.own_script && !table.has(name)) || (arguments.launcher.contains(name) && !table.has(name));
    for (const auto& item : ignored.items()) without_effect = without_effect || covered(item);
    if (!without_effect)
      problems.push_back({file, "arguments", '"' + shortened(said) + '"', "has a variable of a shell",
                          table.reads_file() ? "let the shell expand it, or give it: tandem import --set " + name + "=VALUE"
                                             : "let the shell expand it: docs/coming-from.md says how"});
  }
  if (!problems.empty()) throw ConfigError(problems);
}

}  // namespace tandem::arguments
