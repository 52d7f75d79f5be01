#include <CLI/CLI.hpp>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>

#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/commands/price_arguments.hpp"
#include "experiments/tandem/export/adapter_import.hpp"
#include "experiments/tandem/import/log_lines.hpp"
#include "experiments/tandem/import/log_measurements.hpp"
#include "experiments/tandem/import/plan_report.hpp"
#include "experiments/tandem/import/report.hpp"
#include "models/arguments/command_line.hpp"
#include "models/arguments/configuration.hpp"
#include "models/arguments/imported_plan.hpp"
#include "models/arguments/run_command.hpp"
#include "models/arguments/toml_text.hpp"
#include "models/arguments/yaml_text.hpp"
#include "models/base/files.hpp"
#include "models/base/output.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/stack/stack_file.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::program {

namespace {

struct Options {
  std::string input, configuration, stack, out, record, model, adapter;
  std::vector<std::pair<std::string, nlohmann::json>> set;
  import::PlanRequest wanted;
  std::int64_t sequence = 0;
  bool approximate = false, json = false;
};

/// Throws early if a plan with this cluster would be refused.
void require_cluster(const std::string& name) {
  if (name.empty() || is_preset_path(name) || !find_preset("topology/presets", name).empty()) return;
  Problem p = unknown_preset("topology/presets", name, "cluster preset");
  p.file = "--cluster";
  throw ConfigError(p);
}

/// Throws InfeasibleError for a configuration that is code, such as torchtitan's since 2026-02.
void require_no_code(const std::string& path) {
  if (!path.ends_with(".py")) return;
  throw InfeasibleError(Problem{path, "", "", "not implemented: a configuration in Python, which import does not run",
                                "give the file that the program writes (torchtitan: --debug.save_config_file run.json), or a log"});
}

/// Throws ConfigError for a command that starts a script: only its shell can say which options the script gives.
void require_no_script(const std::string& path, const std::string& text) {
  const std::string script = arguments::script_of(text);
  if (script.empty()) return;
  throw ConfigError(Problem{path, "", script, "is a script, and has no options itself",
                            "let it print the command that it builds: deepspeed() { printf '%s\\n' \"$@\"; }; export -f deepspeed; then this "
                            "command > run.args (torchrun in place of deepspeed where it calls that)"});
}

/// Problems of the file that was to be written, as problems of the one that was read.
std::vector<Problem> of_input(std::vector<Problem> problems, const Options& o) {
  for (Problem& p : problems)
    if (p.file == o.out) p.file = o.input;
  return problems;
}

/// The plan. Refuses one that cannot run. Its paths are relative to the file that will be written.
Plan runnable(const std::string& document, const Options& o) {
  try {
    return parse_plan(document, o.out.empty() ? o.input : o.out);
  } catch (const InfeasibleError& e) {
    throw InfeasibleError(of_input(e.problems(), o));
  } catch (const ConfigError& e) {
    throw ConfigError(of_input(e.problems(), o));
  }
}

/// A file that is a framework's configuration or nothing.
[[noreturn]] void refuse_configuration(const std::string& path) {
  std::vector<std::string> keys;
  for (const std::string& framework : arguments::known_frameworks())
    if (const arguments::Table table = arguments::read_table(framework); table.reads_file())
      for (const nlohmann::json& key : table.document->at("recognised_by")) keys.push_back(key.get<std::string>());
  throw ConfigError(Problem{path, "", "", "is no configuration that is known here: none of " + list_text(keys) + " is in it",
                            "give one of the files in docs/coming-from.md, or write the plan with its tables"});
}

/// The framework whose arguments the file has: options, a log, or a configuration. Nothing for another file.
std::optional<arguments::Table> table_for(const Options& o, std::string& text) {
  const std::string& path = o.input;
  if (is_folder(path) || file_state(path).kind == FileKind::absent) return std::nullopt;
  require_no_code(path);
  text = import::read_log(path);
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  const bool toml = path.ends_with(".toml"), yaml = arguments::is_yaml(path);
  if (begin == std::string::npos && !toml) return std::nullopt;
  const bool object = toml || yaml || text[begin] == '{';
  if (!object && !arguments::looks_like_arguments(text) && !arguments::looks_like_run(text, path)) {
    require_no_script(path, text);
    if (text[begin] != '[')
      throw ConfigError(Problem{path, "", "", "is no configuration that is known here: it is neither JSON nor has a framework's options",
                                "give a config.json, or one of the files in docs/coming-from.md"});
    return std::nullopt;
  }
  if (!object && !arguments::has_printed_block(text))
    if (auto table = arguments::table_of_run(text, path)) return table;
  if (!object) return arguments::table_of_options(text, path, o.wanted.cluster.empty() ? "" : generation_of(o.wanted.cluster));
  const auto document = yaml   ? arguments::parse_yaml(text, path)
                        : toml ? arguments::parse_toml(text, path)
                               : nlohmann::json::parse(text, nullptr, false);
  for (const std::string& framework : arguments::known_frameworks())
    if (arguments::Table table = arguments::read_table(framework); table.recognises(document)) return table;
  if (toml || yaml) refuse_configuration(path);
  return std::nullopt;
}

/// Writes the plan, or prints it where no file and no report on stdout is wanted.
void write_document(const Options& o, const std::string& text) {
  if (!o.out.empty()) write_text(o.out, text);
  else if (!o.json) print_json(text);
}

/// Reports what was read, then refuses what a plan cannot say or no cluster can run.
void report(const arguments::ImportedPlan& made, const Options& o) {
  const std::vector<Problem> refused = o.approximate ? std::vector<Problem>{} : arguments::refusals(made);
  nlohmann::ordered_json filled;
  std::exception_ptr failure;
  try {
    if (refused.empty()) filled = import::filled_by_stack(runnable(made.document->dump(2) + "\n", o), *made.document);
  } catch (...) {
    failure = std::current_exception();
  }
  if (o.json) print_json(import::to_json(made, o.approximate, filled));
  else log(import::to_text(made, o.approximate, filled));
  if (!refused.empty()) throw InfeasibleError(refused);
  if (failure) std::rethrow_exception(failure);
}

ExitCode import_options(const Options& o, const arguments::Table& table, const std::string& text) {
  if (o.wanted.cluster.empty())
    throw ConfigError(Problem{"--cluster", "", "", "is missing: arguments do not say which devices there are",
                              "name a preset, such as dgx-h100; topology/presets/README.md lists them"});
  const auto stack = o.stack.empty() ? std::nullopt : std::optional(parse_stack_choice(o.stack));
  const Month newest = load_stack(stack ? stack->name : table.stack)->read_until;
  arguments::PlanNeeds needs{o.wanted.cluster, o.wanted.devices, o.model, table.reads_file() ? o.sequence : 0, newest, stack,
                                   o.configuration, o.approximate, o.set};
  if (!o.configuration.empty() && !table.names_file() && !table.reads_several())
    throw ConfigError(Problem{o.input, "CONFIG", o.configuration, "is for options or a file that can name another, and " + o.input + " cannot",
                              "add --deepspeed to them, or leave CONFIG out"});
  arguments::ImportedPlan made = arguments::import_arguments(text, o.input, table, needs);
  if (!stack && made.stack.name != table.stack) {  // the file chose another
    needs.newest = load_stack(made.stack.name)->read_until;
    made = arguments::import_arguments(text, o.input, table, needs);
  }
  const auto record = o.record.empty() ? nlohmann::ordered_json() : import::measurement_record(*made.document, text, o.input);
  prepare_outputs({o.out, o.record}, {o.input, o.configuration});
  report(made, o);
  write_document(o, made.document->dump(2) + "\n");
  if (!o.record.empty()) write_text(o.record, record.dump() + "\n");
  return ExitCode::ok;
}

/// Adds training.lora of PEFT's adapter. The plan must still be one that can run.
void add_adapter(const Options& o, nlohmann::ordered_json& document) {
  nlohmann::ordered_json& lora = document["training"]["lora"] = adapter_section(o.adapter, runnable(document.dump(), o), o.input);
  if (lora.contains("base") && document["parallel"]["zero_stage"] > 2) document["parallel"]["zero_stage"] = 2;  // ranks have such weights whole
  runnable(document.dump(), o);
}

ExitCode import_config(const Options& o) {
  const import::Import made = import::make_import(o.input, o.sequence, o.approximate);
  nlohmann::ordered_json document = made.document(o.wanted);
  if (!o.adapter.empty() && !made.refused) add_adapter(o, document);
  prepare_outputs({o.out}, {});  // all inputs have been read by now
  if (o.json) print_json(import::to_json(made, document));
  else log(import::to_text(made, o.wanted.cluster.empty()));
  if (made.refused) throw InfeasibleError(huggingface::refusals(made.model));
  write_document(o, document.dump(2) + "\n");
  return ExitCode::ok;
}

ExitCode import_file(const Options& o) {
  require_cluster(o.wanted.cluster);
  std::string text;
  const auto table = table_for(o, text);
  if (!table && !(o.stack.empty() && o.configuration.empty()))
    throw CLI::ValidationError(o.stack.empty() ? "CONFIG" : "--stack", "is for arguments of a framework: " + o.input + " is a model alone");
  if (!o.model.empty() && !(table && (table->reads_file() || !table->says_model())))
    throw CLI::ValidationError("--model", "is for a framework's file: " + o.input + " says the model");
  if (!o.adapter.empty() && table)
    throw CLI::ValidationError("--adapter", "is for a config.json: " + o.input + " is a framework's file");
  if (!o.set.empty() && !(table && table->reads_file()))
    throw CLI::ValidationError("--set", "is for a framework's file, and " + o.input + (table ? " has options: append the option to them" : " is none"));
  if (table) return import_options(o, *table, text);
  if (o.record.empty()) return import_config(o);
  throw ConfigError(Problem{o.input, "--record", o.record, "needs a log: this file has no arguments", "give the log that Megatron-LM printed"});
}

}  // namespace

void add_import(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("import", "Turn a Hugging Face config.json, Megatron-LM's arguments, or another framework's configuration into a plan");
  command->add_option("FILE", o->input, "config.json, or a folder that has one; a command or a shell script that starts Megatron-LM, Megatron-DeepSpeed, or a script with the Hugging Face Trainer, or a log; a ds_config.json of DeepSpeed; a .toml file of torchtitan, or the JSON that it saves; a .yaml file of NeMo 1 or NxD Training, Megatron-Bridge's run_config.yaml, or a file of GPT-NeoX, nanotron, LLaMA-Factory, Axolotl, TRL, ms-swift, torchtune, the Hugging Face Trainer or Accelerate")->required();
  command->add_option("CONFIG", o->configuration, "the ds_config.json or Accelerate's file that these options or FILE name [beside FILE]; the second file of GPT-NeoX [none]");
  CLI::Option* cluster = command->add_option("--cluster", o->wanted.cluster, "write a whole plan, on this cluster preset [the model alone]")
                             ->type_name("NAME");
  command->add_option("--devices", o->wanted.devices,
                      "devices of that plan [the number that the arguments start; for a config.json 1]; with a config.json they are "
                      "data-parallel, with sharded weights and states (zero_stage 3; 2 beside weights in 4 bits)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->needs(cluster);
  command->add_option("--out", o->out, "file for the preset or plan [stdout]")->type_name("FILE");
  command->add_flag("--json", o->json, "one JSON object on stdout: origins, features, counts, and the preset or plan as `document`");
  command->add_flag("--approximate", o->approximate, "leave out features that a plan cannot express, and print the error in parameters and FLOPs");
  command->add_option("--seq-length", o->sequence,
                      "tokens of a training sequence; attention windows that a plan cannot say are left out if they are not shorter [for counts "
                      "at most 4096; for windows the longest sequence of the model]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 27));
  command->add_option("--adapter", o->adapter, "with a config.json: a folder with PEFT's adapter_config.json, which the plan's training.lora is made from; quantization_config says its base [none]")
      ->type_name("DIR")
      ->needs(cluster);
  command->option_defaults()->group("For a framework's file");
  command->add_option("--stack", o->stack, "the framework, or the month of its code: NAME or NAME@YYYY-MM [what the arguments say]")
      ->type_name("NAME[@YYYY-MM]");
  command->add_option("--model", o->model, "the model, a preset or the path of a config.json [what the file says]; needed with a ds_config.json")
      ->type_name("NAME|FILE");
  const auto set = [o](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const auto [name, value] = pair_of("--set", text);
      const nlohmann::json read = nlohmann::json::parse(value, nullptr, false);
      o->set.emplace_back(name, read.is_discarded() ? nlohmann::json(value) : read);
    }
  };
  command->add_option_function<std::vector<std::string>>("--set", set, "a field and its value, in place of what the file has; may be given again")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("FIELD=VALUE");
  command->add_option("--record", o->record, "from a log: also write a record for validate, of the plan and the median of the step times")
      ->type_name("FILE");
  command->footer("A feature that a plan cannot express is refused by name (exit 4). An unknown model type is bad input (exit 3). The report goes "
                  "to stderr. Let a script print its options: docs/coming-from.md, \"Read your arguments\". A plan can name the same file "
                  "itself: \"model\": {\"preset\": \"path/config.json\"}.");
  command->callback([o, &exit] { exit = import_file(*o); });
}

}  // namespace tandem::program
