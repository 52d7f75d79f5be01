#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "experiments/tandem/commands/arguments.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/export/adapter_export.hpp"
#include "experiments/tandem/export/plan_export.hpp"
#include "experiments/tandem/export/weights_export.hpp"
#include "models/arguments/table.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/quantity.hpp"
#include "models/base/text.hpp"

namespace tandem::program {
namespace {

constexpr const char *kWeights = "huggingface", *kAdapters = "peft";

struct Options {
  PlanExport plan;
  WeightsExport weights;
  std::string input, to, out, most;
  bool json = false;
};

/// A size with transformers' units as plans write them: 20KB as 20kB, 5GIB as 5GiB.
std::string with_plan_units(std::string size) {
  if (size.ends_with("KB")) size[size.size() - 2] = 'k';
  if (size.ends_with("IB")) size[size.size() - 2] = 'i';
  return size;
}

std::uint64_t most_bytes(const std::string& text) {
  try {
    return static_cast<std::uint64_t>(parse_bytes(with_plan_units(text)).count());
  } catch (const ConfigError& e) {
    const Problem& p = e.problems().front();
    throw CLI::ValidationError("--max-shard-size", "\"" + text + "\" " + p.reason + (p.remedy.empty() ? "" : "; " + p.remedy));
  }
}

bool is_checkpoint(const std::string& path) { return is_folder(path) || path.ends_with(".safetensors"); }

/// Frameworks whose options can be written. A table that took another's place is not named: the plan's month chooses it.
std::vector<std::string> frameworks() {
  std::vector<std::string> all = arguments::known_frameworks();
  std::erase_if(all, [](const std::string& framework) {
    const arguments::Table table = arguments::read_table(framework);
    return !table.writes() || !table.follows().empty();
  });
  return all;
}

std::vector<std::string> formats() {
  std::vector<std::string> all = frameworks();
  all.insert(all.end(), {kWeights, kAdapters});
  return all;
}

bool of_checkpoint(const std::string& format) { return format == kWeights || format == kAdapters; }

/// CLI::IsMember of the formats. Reads no table before the option is used or described.
struct IsFormat : CLI::Validator {
  IsFormat() {
    desc_function_ = [] { return CLI::IsMember(formats()).get_description(); };
    func_ = [](std::string& word) { return CLI::IsMember(formats())(word); };
  }
};

/// Refuses a file that is neither a checkpoint nor the JSON object that a plan is.
void require_plan(const std::string& path) {
  const std::string text = read_text(path);
  if (nlohmann::json::parse(text, nullptr, false).is_object()) return;
  throw ConfigError(Problem{path, "", "", "is neither a plan, which is one JSON object, nor a checkpoint of `tandem train --save`",
                            "give one of them"});
}

/// The format to write.
std::string format_of(const Options& o) {
  if (!o.to.empty() && !of_checkpoint(o.to) && is_checkpoint(o.input))
    throw CLI::ValidationError("--to", o.to + " is written from a plan, not from a checkpoint");
  if (!o.to.empty()) return o.to;
  if (is_checkpoint(o.input)) return kWeights;
  require_plan(o.input);
  throw CLI::ValidationError("--to", "is needed for a plan: " + list_text(frameworks(), "or"));
}

/// Refuses options of the other format.
void require_options(const CLI::App& command, const std::string& format) {
  const bool weights = of_checkpoint(format);
  for (const char* name : {"--dtype", "--type", "--config", "--max-shard-size"})
    if (!weights && command.count(name) > 0) throw CLI::ValidationError(name, "is for the weights of a checkpoint");
  for (const char* name : {"--stack", "--approximate"})
    if (weights && command.count(name) > 0) throw CLI::ValidationError(name, "is for a plan");
  if (weights && command.count("--out") == 0) throw CLI::ValidationError("--out", "is needed: the folder to write");
}

ExitCode run_export(Options& o, const CLI::App& command) {
  const std::string format = format_of(o);
  require_options(command, format);
  if (of_checkpoint(format)) {
    if (!o.most.empty()) o.weights.most_bytes = most_bytes(o.most);
    o.weights.checkpoint = o.input, o.weights.out = o.out, o.weights.json = o.json;
    return format == kWeights ? export_checkpoint(o.weights) : export_adapters(o.weights);
  }
  o.plan.plan = o.input, o.plan.out = o.out, o.plan.json = o.json, o.plan.to = format;
  return export_plan(o.plan);
}

}  // namespace

void add_export(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("export", "Write a plan as another framework's options, or trained weights in Hugging Face's format");
  command->add_option("INPUT", o->input, "plan file (JSON), or a checkpoint of `train --save`: a .safetensors file, a folder (its latest checkpoint), or one checkpoint in a folder")->required();
  command->add_option("--to", o->to, "what to write; for a checkpoint: huggingface, or peft for its adapters alone [huggingface]")->check(IsFormat());
  command->add_option("--out", o->out,
                      "for a plan: file to write [stdout]; for a checkpoint: folder for config.json and model.safetensors, or several files "
                      "with an index")
      ->type_name("FILE|DIR");
  command->add_flag("--json", o->json, "one JSON object on stdout");
  command->option_defaults()->group("For a plan");
  add_stack_option(*command, o->plan.stack);
  command->add_flag("--approximate", o->plan.approximate, "leave out fields without an option, and list them");
  command->option_defaults()->group("For a checkpoint");
  command->add_option("--dtype", o->weights.dtype, "type of the weights [the checkpoint's]; other types come from the optimizer's masters where it has them")
      ->check(CLI::IsMember({"fp64", "fp32", "bf16", "fp16"}));
  command->add_option("--type", o->weights.type, "model type of transformers [the first that describes the plan's model]")->type_name("NAME");
  command->add_option("--config", o->weights.config,
                      "config.json to write, or a folder that has one, with ids of tokens, weights of towers and what else no plan says [made from the plan]")
      ->type_name("FILE|DIR");
  command->add_option("--max-shard-size", o->most, "bytes of tensors in one file, such as 500MB or 2GiB [5GB]")->type_name("SIZE");
  command->footer("A plan's options are read back; a field that differs then is refused by name (exit 4). Data, tokenizer, checkpoints and logs "
                  "are yours to add. transformers' from_pretrained(DIR) computes a checkpoint's logits. A model that a type cannot say is "
                  "refused by name (exit 4). The tokenizer is not part of a checkpoint: copy its files beside.");
  command->callback([o, command, &exit] { exit = run_export(*o, *command); });
}

}  // namespace tandem::program
